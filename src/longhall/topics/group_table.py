"""The groups of one shard: what is durable about them, and the rules that keep it.

`apply` alone changes durable state, live and in a replay; `snapshot` and `restore` are its form in a checkpoint. This
module decides nothing and answers no request: `groups` does.
"""

from __future__ import annotations

from typing import Any, final

import msgspec

from longhall.topics.consumer_group import ConsumerGroup
from longhall.topics.consumer_membership import ConsumerMembership
from longhall.topics.events import (
    ConsumerGroupChanged,
    GroupConfigured,
    GroupDeleted,
    GroupEmptied,
    GroupEvent,
    GroupStable,
)
from longhall.topics.group import Group, State
from longhall.topics.group_configuration import GroupConfigurations
from longhall.topics.membership import Membership
from longhall.topics.mixed_membership import MixedMembership
from longhall.topics.settings import GroupSettings
from longhall.topics.timers import Timers


@final
class GroupTable:
    """Groups by id, of both protocols, their deadlines in one heap, and the settings of single groups."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self.configurations = GroupConfigurations(settings)
        self.groups: dict[str, Group | ConsumerGroup] = {}
        self.timers = Timers()
        self.membership = Membership(settings, self.timers)
        self.consumers = ConsumerMembership(settings, self.configurations, self.timers)
        self.mixed = MixedMembership(settings, self.consumers, self.timers)

    def apply(self, event: GroupEvent, now_ms: int) -> None:
        """Replay one event. Sessions of members begin at `now_ms`; no request is answered."""
        group = self.groups.get(event.group_id)
        if isinstance(event, GroupDeleted):
            if isinstance(group, ConsumerGroup):
                self.consumers.forget(group)
                del self.groups[event.group_id]
            elif group is not None:
                group.state = State.EMPTY
                self.remove(group)
            return
        if isinstance(event, GroupConfigured):
            self.configurations.set(event.group_id, event.configuration)
            return
        if isinstance(event, ConsumerGroupChanged):
            group = self._apply_members(group, event, now_ms)
        elif isinstance(event, GroupStable | GroupEmptied):
            classic = self.make_classic(group) if isinstance(group, ConsumerGroup) else group
            if classic is None:
                classic = self.groups[event.group_id] = Group(event.group_id)
            group = classic
            if isinstance(event, GroupStable):
                self.membership.rebalance.replay_stable(classic, event, now_ms)
            else:
                self.membership.rebalance.replay_empty(classic, event)
        else:
            if group is None:
                group = self.groups[event.group_id] = Group(event.group_id)
            group.offsets.apply(event)
            group.has_events = True
        is_emptied = isinstance(event, GroupEmptied | ConsumerGroupChanged) and group.emptied_ms is not None
        if group.expiry_timer.due_ms < 0 or is_emptied:
            self.membership.rebalance.expect_expiry(group, now_ms)

    def _apply_members(
        self, group: Group | ConsumerGroup | None, event: ConsumerGroupChanged, now_ms: int
    ) -> ConsumerGroup:
        if not isinstance(group, ConsumerGroup):
            offsets = None
            if group is not None:
                offsets = group.offsets
                self.membership.forget(group)
            group = self.groups[event.group_id] = ConsumerGroup(event.group_id, offsets)
        group.apply(event)
        self.consumers.applied(group, event, now_ms)
        return group

    def written(self) -> list[str]:
        """The ids of groups with durable state."""
        return [group.group_id for group in self.groups.values() if group.is_written]

    def offsets_of(self, group_id: str) -> list[Any]:
        """The offsets of a group in the form of its snapshot."""
        return self.groups[group_id].offsets.snapshot()

    def snapshot(self) -> dict[str, Any]:
        """The state as builtins; groups without durable state are left out."""
        state: dict[str, Any] = {
            "groups": [
                [
                    group.group_id,
                    msgspec.to_builtins(
                        group.record() if isinstance(group, ConsumerGroup) else group.recorded, builtin_types=(bytes,)
                    ),
                    group.offsets.snapshot(),
                ]
                for group in self.groups.values()
                if group.is_written
            ]
        }
        if len(self.configurations):
            state["configurations"] = self.configurations.snapshot()
        return state

    def restore(self, state: dict[str, Any], now_ms: int) -> None:
        """Restore the result of `snapshot`."""
        self.timers = Timers()
        self.membership = Membership(self._settings, self.timers)
        self.consumers = ConsumerMembership(self._settings, self.configurations, self.timers)
        self.mixed = MixedMembership(self._settings, self.consumers, self.timers)
        self.groups = {}
        self.configurations.restore(state.get("configurations", {}))  # Older snapshots have none.
        for group_id, recorded, offsets in state["groups"]:
            group = self.groups[group_id] = Group(group_id)
            group.offsets.restore(offsets)
            group.has_events = True
            if recorded is not None:
                self.apply(msgspec.convert(recorded, GroupStable | GroupEmptied | ConsumerGroupChanged), now_ms)
            self.membership.rebalance.expect_expiry(self.groups[group_id], now_ms)

    def make_classic(self, group: ConsumerGroup) -> Group:
        """An empty group is joined by a classic member: the generations continue the epochs."""
        self.consumers.forget(group)
        classic = self.groups[group.group_id] = Group(group.group_id, group.offsets)
        classic.generation = group.target.epoch
        classic.has_events = True
        self.membership.rebalance.expect_expiry(classic, group.emptied_ms or 0)
        return classic

    def remove(self, group: Group) -> None:
        group.transition(State.DEAD)
        self.membership.forget(group)
        del self.groups[group.group_id]
