"""Policies: settings for the queues and exchanges whose names match a pattern.

Of the policies that match, the one of the highest priority holds, and only that one; so it is with operator policies,
which bound what policies and arguments say. What a definition means for a queue is decided in `broker/queue_policies`;
an exchange takes its alternate exchange from here.

    apply-to                        matches
    all                             queues and exchanges
    queues, exchanges               these
    classic_queues, quorum_queues   queues of the type

decide_*() reads and returns an event or a refusal; apply() alone mutates. This module does not know queues: the caller
names them.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.exchanges.events import PolicyRemoved, PolicySet
from longhall.exchanges.patterns import compile_pattern

POLICIES_MAX: Final = 1_000  # Of all virtual hosts, policies and operator policies together.
NAME_CHARACTERS_MAX: Final = 255
PRIORITY_MAX: Final = (1 << 31) - 1
MOST: Final = (1 << 62) - 1
MILLISECONDS_MAX: Final = 10 * 365 * 24 * 3_600_000

ALL: Final = "all"
EXCHANGES: Final = "exchanges"
ALTERNATE: Final = "alternate-exchange"
_QUEUES: Final = {
    "queues": ("classic", "quorum", "stream"),
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": ("stream",),
}
APPLIES_TO: Final = (ALL, EXCHANGES, *_QUEUES)

# The bounds of numbers, and the values of words. None: any text.
NUMBERS: Final = {
    "message-ttl": (0, MILLISECONDS_MAX),
    "expires": (1, MILLISECONDS_MAX),
    "max-length": (1, MOST),
    "max-length-bytes": (1, MOST),
    "delivery-limit": (-1, 1_000_000),
}
WORDS: Final[dict[str, tuple[str, ...] | None]] = {
    "overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "dead-letter-exchange": None,
    "dead-letter-routing-key": None,
    "dead-letter-strategy": ("at-most-once", "at-least-once"),
    ALTERNATE: None,
    # They hold without a policy: every queue keeps its messages on disk, and every replica of a cluster has all queues.
    "queue-mode": ("default", "lazy"),
    "ha-mode": ("all",),
    "ha-sync-mode": ("automatic", "manual"),
}
OPERATOR_KEYS: Final = frozenset((*NUMBERS, "overflow"))


@final
class Policies:
    """All policies, by kind, virtual host and name."""

    def __init__(self) -> None:
        self._policies: dict[tuple[bool, str, str], PolicySet] = {}

    def __len__(self) -> int:
        return len(self._policies)

    def with_policy(self, event: PolicySet) -> Policies:
        """These policies and another one."""
        found = Policies()
        for one in (*self.rows(False), *self.rows(True), event):
            found.apply(one)
        return found

    def rows(self, operator: bool) -> list[PolicySet]:
        """The policies, or the operator policies, by virtual host and name."""
        return [one for key, one in sorted(self._policies.items()) if key[0] == operator]

    def find(self, operator: bool, host: str, name: str) -> PolicySet | None:
        """The policy of this name."""
        return self._policies.get((operator, host, name))

    def of_queue(self, operator: bool, host: str, name: str, kind: str) -> PolicySet | None:
        """The policy that holds for a queue of this type."""
        return self._best(operator, host, name, lambda to: to == ALL or kind in _QUEUES.get(to, ()))

    def of_exchange(self, host: str, name: str) -> PolicySet | None:
        """The policy that holds for an exchange."""
        return self._best(False, host, name, lambda to: to in (ALL, EXCHANGES))

    def _best(self, operator: bool, host: str, name: str, applies: Any) -> PolicySet | None:
        best: PolicySet | None = None
        for one in self._policies.values():
            if one.operator != operator or one.host != host or not applies(one.apply_to):
                continue
            if (best is None or (one.priority, one.name) > (best.priority, best.name)) and compile_pattern(
                one.pattern
            ).search(name):
                best = one
        return best

    def decide_set(self, event: PolicySet) -> PolicySet | None:
        """None if the policy is the same already. INVALID_REQUEST for a definition that cannot be honoured."""
        check_policy(event)
        known = self.find(event.operator, event.host, event.name)
        if known == event:
            return None
        if known is None and len(self._policies) >= POLICIES_MAX:
            raise LonghallError(Code.OVERLOADED, f"there are at most {POLICIES_MAX} policies")
        return event

    def decide_remove(self, operator: bool, host: str, name: str) -> PolicyRemoved | None:
        """None if there is none of this name."""
        known = self.find(operator, host, name)
        return PolicyRemoved(operator=operator, host=host, name=name) if known is not None else None

    def apply(self, event: PolicySet | PolicyRemoved) -> None:
        """Apply an event."""
        if isinstance(event, PolicySet):
            self._policies[event.operator, event.host, event.name] = event
        else:
            self._policies.pop((event.operator, event.host, event.name), None)

    def host_removed(self, host: str) -> None:
        """Forget the policies of a virtual host."""
        self._policies = {key: one for key, one in self._policies.items() if one.host != host}


def check_policy(event: PolicySet) -> None:
    """Raises INVALID_REQUEST for a policy that cannot be honoured, with the reason."""
    if not 0 < len(event.name) <= NAME_CHARACTERS_MAX:
        raise _refused(f"the name of a policy has between 1 and {NAME_CHARACTERS_MAX} characters")
    compile_pattern(event.pattern)
    if event.apply_to not in APPLIES_TO:
        raise _refused(f"apply-to must be one of {', '.join(APPLIES_TO)}")
    if event.apply_to == "streams":
        raise _refused("apply-to streams: no key of a stream is set by a policy")
    if event.operator and event.apply_to == EXCHANGES:
        raise _refused("an operator policy applies to queues, classic_queues, quorum_queues, or all of them")
    if not -PRIORITY_MAX <= event.priority <= PRIORITY_MAX:
        raise _refused("the priority is no 32-bit integer")
    if not event.definition:
        raise _refused("the definition is empty")
    for key, value in event.definition.items():
        _check_key(event, key, value)
    if "dead-letter-routing-key" in event.definition and "dead-letter-exchange" not in event.definition:
        raise _refused("dead-letter-routing-key needs a dead-letter-exchange")


def _check_key(event: PolicySet, key: str, value: Any) -> None:
    known = key in OPERATOR_KEYS if event.operator else key in NUMBERS or key in WORDS
    if not known:
        raise _refused(f"'{key}' is not recognised as a policy setting: it would have no effect")
    if event.apply_to == EXCHANGES and key != ALTERNATE:
        raise _refused(f"'{key}' is no setting of exchanges")
    if key == ALTERNATE and event.apply_to not in (ALL, EXCHANGES):
        raise _refused(f"'{key}' is a setting of exchanges")
    if key == "delivery-limit" and event.apply_to == "classic_queues":
        raise _refused("delivery-limit is a setting of quorum queues")
    if key in NUMBERS:
        least, most = NUMBERS[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _refused(f"'{key}' must be an integer from {least} to {most}")
        return
    words = WORDS[key]
    if not isinstance(value, str) or (words is not None and value not in words):
        raise _refused(f"'{key}' must be {'a string' if words is None else 'one of ' + ', '.join(words)}")


def _refused(text: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, text)
