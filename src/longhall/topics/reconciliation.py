"""The way of one member to its target assignment: give up first, get afterwards.

No partition belongs to two members. A member that has to give up partitions keeps its epoch until it reports that it
has given them up; only then it moves to the epoch of the target and gets what other members have released.

| state      | when                                                                  | next                          |
|------------|-----------------------------------------------------------------------|-------------------------------|
| stable     | the target is newer, and the member has partitions to give up         | unrevoked, in its old epoch   |
| stable     | the target is newer, and others still have some of its partitions     | unreleased, in the new epoch  |
| stable     | the target is newer, and all of its partitions are free               | stable, in the new epoch      |
| unrevoked  | the member does not report its partitions, or still owns revoked ones | unrevoked                     |
| unrevoked  | the member owns none of the revoked partitions                        | as from stable                |
| unreleased | others have released more of its partitions                           | as from stable, with these    |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from longhall.topics.assignment import Place, Places, assigned, places
from longhall.topics.events import SubscribedMember

STABLE: Final = "stable"
UNREVOKED: Final = "unrevoked"
UNRELEASED: Final = "unreleased"

OwnedByOther = Callable[[Place], bool]


def is_reconciled(member: SubscribedMember, epoch: int) -> bool:
    """True if the member has exactly its target of this epoch."""
    return member.state == STABLE and member.epoch == epoch


def reconcile(
    member: SubscribedMember, target: Places, epoch: int, owned: Places | None, owned_by_other: OwnedByOther
) -> SubscribedMember:
    """The member after one more step towards the target of this epoch. `owned` is what it reports to own now; None if
    it did not say.
    """
    if is_reconciled(member, epoch):
        return member
    if member.state == UNREVOKED and _owns_any(owned, places(member.revoking)):
        return member
    current = places(member.assigned)
    kept = current & target
    revoked = current - kept
    if revoked and _owns_any(owned, revoked):
        return msgspec.structs.replace(
            member,
            state=UNREVOKED,
            previous_epoch=member.epoch,
            assigned=assigned(kept),
            revoking=assigned(revoked),
        )
    free = frozenset(place for place in target - kept if not owned_by_other(place))
    return msgspec.structs.replace(
        member,
        state=STABLE if kept | free == target else UNRELEASED,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned(kept | free),
        revoking=(),
    )


def _owns_any(owned: Places | None, revoked: Places) -> bool:
    return owned is None or not revoked.isdisjoint(owned)
