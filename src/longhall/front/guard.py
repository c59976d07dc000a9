"""The guard: the one place where an operation of a door is permitted or refused, in the process that the client asked.

    no users, no authentication asked for   `active` is False: one comparison, and everybody may do everything
    administrators                          everything
    everybody else                          what the rules say (`permissions`), by the table of `operation_permissions`

A queue over a topic, and a fork, is read and written with permission for its topic too: it is another door to the same
messages. Who may change users may change an administrator only with permission to alter the cluster.

The router asks before an operation leaves this process. Calls that arrive from other processes of Longhall were checked
where they arrived, and calls of Longhall itself use `Router.dispatch`. In report-only mode what would be refused is
logged and counted with the permission that it needed, and then carried out.

A process that has no copy of the directory yet refuses everything with NOT_READY, which clients repeat.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, final

import msgspec

from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.directory.access_rules import (
    CLUSTER_NAME,
    EVERY_NAME,
    ROLES_KIND,
    RULE_KIND,
    AccessAction,
    AccessRule,
    Kind,
    decode_roles,
    decode_rule,
    denied_subject,
)
from longhall.directory.accounts import TENANT, USER
from longhall.directory.directory import Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged
from longhall.errors import Code, LonghallError
from longhall.front.audit import ADMINISTRATIVE, AuditTrail
from longhall.front.identity import ADMINISTRATOR_KIND, USER_KIND
from longhall.front.operation_permissions import (
    OPERATION_PERMISSIONS,
    OPERATIONS_OF_ACCOUNTS,
    Alternatives,
    exchange_name,
    on_cluster,
)
from longhall.front.permissions import AccessModel, AccessRefused, Explanation, Need, Permissions, RequestOrigin
from longhall.front.queue_policy import ACCOUNT, PolicyCaller, PolicyVerdict, verdict
from longhall.front.roles import ADMINISTRATOR
from longhall.front.waiting_calls import WaitingCalls
from longhall.queues.messages import QueueView
from longhall.service import exchange_operations as exchanges
from longhall.service import policy_operations as policies
from longhall.service import queue_operations as queues

ENFORCE: Final = "enforce"
REPORT: Final = "report"
REPORTED_MAX: Final = 1_000  # Pairs of a user and a need that are counted apart.

_RELEVANT: Final = frozenset({RULE_KIND, ROLES_KIND, USER, TENANT})
_QUEUES: Final = (Kind.QUEUE, Kind.TOPIC)
_OF_MESSAGES: Final = (AccessAction.READ, AccessAction.WRITE)

# The operations whose first need is an administrative action.
_AUDITED: Final = frozenset(
    kind
    for kind, row in OPERATION_PERMISSIONS.items()
    if row.asked is not None and any(alternatives[0][0] in ADMINISTRATIVE for alternatives in row.pairs)
)

_log = logging.getLogger("longhall.access")

R = TypeVar("R")

Selection = Callable[[Any], Any]


@final
class AccessGuard(DirectoryObserver):
    """The permissions of all callers of one process."""

    def __init__(
        self,
        directory: Directory,
        now_ms: Callable[[], int],
        view: Callable[[str], QueueView | None],
        *,
        authenticates: Callable[[], bool],
        mode: str = ENFORCE,
        audit: AuditTrail | None = None,
    ) -> None:
        """`view`: the queues that this process knows. `authenticates`: whether clients have to log in, asked after
        every change of the directory.
        """
        self.active = False
        self.mode = mode
        self.audit = audit  # None: nothing is recorded.
        self.audits = audit is not None  # True if administrative operations are recorded.
        self.unseen: dict[str, None] = {}  # Queues that the last check asked for and that are not known here.
        self._notes_unseen = False
        self.refused: Counter[str] = Counter()  # By action and kind.
        self.reported: Counter[tuple[str, str]] = Counter()  # By user and need, in report-only mode.
        self.unreadable: frozenset[str] = frozenset()  # Ids of rules that a newer version wrote.
        self._directory = directory
        self._now_ms = now_ms
        self._view = view
        self._authenticates = authenticates
        self._model = AccessModel()
        self._waiting = WaitingCalls(self._check_again)
        self._is_stale = True
        directory.observers.append(self)
        self.refresh()

    def directory_changed(self, event: DirectoryChanged) -> None:
        kinds = {one.kind for one in event.put} | {kind for kind, _ in event.removed}
        if kinds & _RELEVANT:
            self._is_stale = True
        self.refresh()
        if self._is_stale and self._waiting:
            self._waiting.check()

    def refresh(self) -> None:
        """Find out whether clients have to log in."""
        self.active = self._authenticates()

    # For the router

    def check(self, operation: Operation[Any], caller: Caller) -> Selection | None:
        """Raises AccessRefused if the caller may not. What is returned selects the visible part of the reply. Of queues
        that are `unseen` then, neither policy nor topic was asked.
        """
        if self.unseen:
            self.unseen = {}
        self._notes_unseen = True
        try:
            return self._check(operation, caller)
        finally:
            self._notes_unseen = False

    def _check(self, operation: Operation[Any], caller: Caller) -> Selection | None:
        if caller.kind == ADMINISTRATOR_KIND:
            return None
        kind = type(operation)
        row = OPERATION_PERMISSIONS.get(kind)
        if row is None or row.is_internal:
            raise LonghallError(Code.ACCESS_REFUSED, f"{kind.__name__} is not for clients")
        if row.asked is not None:
            self.require(caller, row.asked(operation))
            if isinstance(operation, queues.CreateQueue | queues.ConfigureQueue):
                self.require(caller, self._letter_needs(operation))
            elif isinstance(operation, OPERATIONS_OF_ACCOUNTS):
                self._require_for_account(str(getattr(operation, "user", "") or getattr(operation, "name", "")), caller)
        return self._selection(operation, caller) if row.is_listed else None

    def watch(self, operation: Operation[R], caller: Caller, under_way: Pending[R]) -> Pending[R]:
        """The reply of an operation that waits; its refusal as soon as it is not permitted any more."""
        return self._waiting.add(operation, caller, under_way)

    def note_permitted(self, operation: Operation[Any], caller: Caller) -> None:
        """Record an operation that was permitted, if it is administrative."""
        kind = type(operation)
        if self.audit is None or kind not in _AUDITED:
            return
        asked = OPERATION_PERMISSIONS[kind].asked
        assert asked is not None
        needs = asked(operation)
        need = needs[0][0] if needs else Need(AccessAction.ALTER, Kind.CLUSTER, CLUSTER_NAME)
        # Who may change users and rules has a permission at the cluster; the record names what was changed.
        changed = need.name
        if need.kind is Kind.CLUSTER:
            changed = str(getattr(operation, "name", "") or getattr(operation, "user", "") or need.name)
        self.audit.note_operation(caller, kind.__name__, need.kind, changed)

    def check_describe(self, queue: str, caller: Caller) -> None:
        """Raises AccessRefused if the caller may not know of a queue."""
        self.require(caller, [(Need(AccessAction.DESCRIBE, Kind.QUEUE, queue),)])

    def check_write(self, caller: Caller, queue: str) -> None:
        """Raises AccessRefused if the caller may not write to a queue. The leader of the message's queue checks the
        reply queue for the consumer that answers it.
        """
        self.require(caller, [(Need(AccessAction.WRITE, Kind.QUEUE, queue),)])

    # For doors

    def allows(self, caller: Caller, action: AccessAction, kind: Kind, name: str) -> bool:
        """True if the caller may. A refusal is counted, and reported in report-only mode."""
        if not self.active or caller.kind == ADMINISTRATOR_KIND:
            return True
        need = Need(action, kind, name)
        if self._lacks(caller, self._permissions(caller), (need,), self._origin(caller)) is None:
            return True
        return self._note(caller, need)

    def would_allow(self, caller: Caller, action: AccessAction, kind: Kind, name: str) -> bool:
        """The same for what is only shown: nothing is counted. In report-only mode everything is shown."""
        if not self.active or caller.kind == ADMINISTRATOR_KIND or self.mode == REPORT:
            return True
        needs = (Need(action, kind, name),)
        return self._lacks(caller, self._permissions(caller), needs, self._origin(caller)) is None

    def allows_some(self, caller: Caller, action: AccessAction, kind: Kind) -> bool:
        """True if there is a name with which the caller may do this."""
        if not self.active or caller.kind == ADMINISTRATOR_KIND:
            return True
        if self._permissions(caller).allows_some(action, kind, self._origin(caller)):
            return True
        return self._note(caller, Need(action, kind, "*"))

    def may_enter(self, caller: Caller, host: str) -> bool:
        """True if the caller may do anything at all in a virtual host."""
        if not self.active or caller.kind == ADMINISTRATOR_KIND or self.mode == REPORT:
            return True
        return self._permissions(caller).may_enter(host)

    def require(self, caller: Caller, needs: Iterable[Alternatives]) -> None:
        """Raises AccessRefused unless the caller has one permission of each need."""
        if not self.active or caller.kind == ADMINISTRATOR_KIND:
            return
        permissions, origin = self._permissions(caller), self._origin(caller)
        for alternatives in needs:
            need = self._lacks(caller, permissions, alternatives, origin)
            if need is not None and not self._note(caller, need):
                described = Need(AccessAction.DESCRIBE, need.kind, need.name)
                asked = msgspec.structs.replace(caller, action="")
                is_new = need.action is AccessAction.CREATE  # Refused whether it exists or not.
                may_exist = need.kind in _QUEUES and not is_new
                hidden = may_exist and not self._has_one(asked, permissions, (described,), origin)
                raise AccessRefused(caller.identity, need, hidden)

    def now_ms(self) -> int:
        """The time that conditions see."""
        return self._now_ms()

    def roles_of(self, user: str) -> list[str]:
        """The roles of a user."""
        self._of_user(user)  # Up to date.
        found = self._directory.accounts.users.get(user)
        marked = [ADMINISTRATOR] if found is not None and found.administrator else []
        return sorted({*marked, *self._model.roles_of(user)})

    def explain(self, user: str, need: Need, origin: RequestOrigin) -> Explanation:
        """The decision that this user would get, with its reason."""
        permissions = self._of_user(user)
        if permissions.is_administrator:
            return permissions.explain(need, origin)
        caller = Caller(user, origin.address, "", USER_KIND, origin.tls)
        for one in (need, self._topic_need(need) if need.action in _OF_MESSAGES else need):
            found = permissions.explain(one, origin)
            said = self._policy_verdict(caller, one, origin)
            if said is PolicyVerdict.DENIED:
                found = Explanation(False, f"the policy of queue '{one.name}' denies it", [])
            elif said is PolicyVerdict.ALLOWED and not permissions.denies(one, origin):
                found = Explanation(True, f"the policy of queue '{one.name}' allows it", [])
            if not found.allowed:
                over = f"the queue is over the topic '{one.name}': " if one.name != need.name else ""
                return found._replace(reason=over + found.reason)
        return found

    # Inside

    def _check_again(self, operation: Operation[Any], caller: Caller) -> None:
        """Raises ACCESS_REFUSED if the client of an operation may not go on waiting."""
        if not self.active:
            return
        accounts = self._directory.accounts
        found, is_user = accounts.active_user(caller.identity), caller.kind == USER_KIND
        is_key = caller.kind == ADMINISTRATOR_KIND and caller.identity not in accounts.users  # Of a file.
        if not is_key and (found is None or found.administrator is is_user):
            raise LonghallError(Code.ACCESS_REFUSED, "the user may not log in any more, or has other rights now")
        self.check(operation, caller)

    def _require_for_account(self, user: str, caller: Caller) -> None:
        """Raises AccessRefused if an operation is on a user who may change users and rules, and the caller may not:
        with a new password for such a user, the caller would become it.
        """
        if self._of_user(user).grants(AccessAction.ALTER, Kind.CLUSTER):
            self.require(caller, [(on_cluster(AccessAction.ALTER),)])

    def _lacks(
        self, caller: Caller, permissions: Permissions, alternatives: Alternatives, origin: RequestOrigin
    ) -> Need | None:
        """The need that is not met; None if one alternative is allowed and none is denied, for the topic below too."""
        if not self._has_one(caller, permissions, alternatives, origin):
            return alternatives[0]
        if any(need.action in _OF_MESSAGES for need in alternatives):
            below = tuple([self._topic_need(need) for need in alternatives])
            if below != alternatives and not self._has_one(caller, permissions, below, origin):
                # The topic is named to those who may know of it.
                named = below[0]._replace(action=AccessAction.DESCRIBE)
                return below[0] if self._has_one(caller, permissions, (named,), origin) else alternatives[0]
        return None

    def _topic_need(self, need: Need) -> Need:
        """The same need for the topic that a queue is over; the need itself if it is over none."""
        view = self._view_of(need)
        return need if view is None or not view.topic else Need(need.action, Kind.TOPIC, view.topic)

    def _view_of(self, need: Need) -> QueueView | None:
        """The queue that a need is for, if it is known here."""
        view = self._view(need.name) if need.kind in _QUEUES else None
        if view is None and need.kind is Kind.QUEUE and self._notes_unseen:
            self.unseen[need.name] = None
        return view

    def _has_one(
        self, caller: Caller, permissions: Permissions, alternatives: Alternatives, origin: RequestOrigin
    ) -> bool:
        """True if one alternative is allowed, by a rule or by the policy of the queue, and none is denied."""
        policies = [self._policy_verdict(caller, need, origin) for need in alternatives]
        if PolicyVerdict.DENIED in policies:
            return False
        if PolicyVerdict.ALLOWED in policies:
            return not any(permissions.denies(need, origin) for need in alternatives)
        if len(alternatives) == 1:
            return permissions.allows(alternatives[0], origin)
        return _allows_one(permissions, alternatives, origin)

    def _policy_verdict(self, caller: Caller, need: Need, origin: RequestOrigin) -> PolicyVerdict:
        """What the policy of a queue says, if it has one."""
        view = self._view_of(need)
        text = view.settings.door.get("Policy", "") if view is not None else ""
        if not text:
            return PolicyVerdict.SILENT
        user = caller.identity if caller.kind == USER_KIND else ""
        roles = tuple(self.roles_of(user)) if user else ()
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{need.name}"
        return verdict(text, arn, need.action, PolicyCaller(user, roles, origin, caller.action))

    def _permissions(self, caller: Caller) -> Permissions:
        # The name of an anonymous client is one that nobody has checked.
        return self._of_user(caller.identity if caller.kind == USER_KIND else "")

    def _of_user(self, user: str) -> Permissions:
        if not self._directory.known:
            raise LonghallError(Code.NOT_READY, "this node does not know users and rules yet; ask again in a moment")
        if self._is_stale:
            self._load()
        found = self._directory.accounts.users.get(user)
        more = (ADMINISTRATOR,) if found is not None and found.administrator else ()
        return self._model.permissions(user, more)

    def _load(self) -> None:
        rules: list[AccessRule] = []
        unreadable: dict[str, str | None] = {}  # By id: whom the rule is taken to deny everything.
        for name, value in self._directory.entries_of(RULE_KIND).items():
            rule = decode_rule(value)
            if rule is not None:
                rules.append(rule)
            else:
                unreadable[name] = denied_subject(value)
        self._deny_unreadable(unreadable, rules)
        roles = {user: decode_roles(value) for user, value in self._directory.entries_of(ROLES_KIND).items()}
        self._model.load(rules, roles)
        self._is_stale = False

    def _deny_unreadable(self, unreadable: dict[str, str | None], rules: list[AccessRule]) -> None:
        """A newer version wrote rules that this one cannot read. One that denies must not be lost: it denies its
        subject everything.
        """
        for name, subject in unreadable.items():
            if name not in self.unreadable:
                effect = "is left out: it allows" if subject is None else f"denies {subject} everything"
                extra = {"rule": name, "effect": effect}
                _log.error("an access rule of a newer version cannot be read; upgrade this node", extra=extra)
        self.unreadable = frozenset(unreadable)
        for subject in sorted({one for one in unreadable.values() if one is not None}):
            rules += [
                AccessRule(subject=subject, action=AccessAction.ALL, kind=kind, name=EVERY_NAME, allow=False)
                for kind in Kind
            ]

    def _origin(self, caller: Caller) -> RequestOrigin:
        return RequestOrigin(caller.address, caller.tls, self._now_ms())

    def _note(self, caller: Caller, need: Need) -> bool:
        """Count what is not permitted; True in report-only mode, in which it is carried out all the same."""
        extra = {"user": caller.identity, "needs": str(need), "peer": caller.address}
        if self.audit is not None:
            self.audit.note_refusal(caller, need.action, need.kind, need.name, allowed=self.mode == REPORT)
        if self.mode != REPORT:
            self.refused[f"{need.action} {need.kind}"] += 1
            _log.debug("refused for want of a permission", extra=extra)
            return False
        key = (caller.identity, str(need))
        if key not in self.reported:
            if len(self.reported) >= REPORTED_MAX:
                key = ("", "others")
            _log.warning("would be refused for want of a permission", extra=extra)
        self.reported[key] += 1
        return True

    def _letter_needs(self, op: queues.CreateQueue | queues.ConfigureQueue) -> list[Alternatives]:
        """A new dead-letter queue needs write on it. Settings that do not change need no permission."""
        view = self._view(op.queue) if isinstance(op, queues.ConfigureQueue) else None
        before = view.settings if view is not None else None
        letters = op.settings.dead_letters
        needs: list[Alternatives] = []
        if letters is not None and (before is None or before.dead_letters is None or before.dead_letters != letters):
            write = Need(AccessAction.WRITE, Kind.QUEUE, letters.queue)
            needs.append((write, Need(AccessAction.ALTER, Kind.QUEUE, letters.queue)))
        exchange = op.settings.amqp.letters_exchange if op.settings.amqp is not None else None
        known = before.amqp.letters_exchange if before is not None and before.amqp is not None else None
        if exchange is not None and exchange != known:
            assert op.settings.amqp is not None
            name = exchange_name(op.settings.amqp.host, exchange)
            needs.append((Need(AccessAction.READ, Kind.QUEUE, op.queue),))
            needs.append((Need(AccessAction.WRITE, Kind.EXCHANGE, name),))
        return needs

    def _selection(self, operation: Operation[Any], caller: Caller) -> Selection | None:
        """The part of the reply that the caller may see; None if all of it."""
        if not self.active or self.mode == REPORT:
            return None
        permissions, origin = self._permissions(caller), self._origin(caller)

        asked = msgspec.structs.replace(caller, action="")  # A list is no action at the queues that it shows.

        def sees(kind: Kind, name: str) -> bool:
            return self._has_one(asked, permissions, (Need(AccessAction.DESCRIBE, kind, name),), origin)

        def sees_binding(one: exchanges.BindingView) -> bool:
            if not sees(Kind.EXCHANGE, exchange_name(one.host, one.source)):
                return False
            if one.to_exchange:
                return sees(Kind.EXCHANGE, exchange_name(one.host, one.destination))
            return sees(Kind.QUEUE, one.destination)

        match operation:
            case exchanges.ListExchanges():
                return lambda found: [x for x in found if sees(Kind.EXCHANGE, exchange_name(x.host, x.name))]
            case exchanges.ListBindings():
                return lambda found: [one for one in found if sees_binding(one)]
            case exchanges.ListVirtualHosts():
                return lambda found: [host for host in found if permissions.may_enter(host)]
            case policies.DescribeQueues():
                return lambda found: [state for state in found if sees(Kind.QUEUE, state.name)]
            case _:
                return lambda found: [name for name in found if sees(Kind.QUEUE, name)]


def _allows_one(permissions: Permissions, alternatives: Alternatives, origin: RequestOrigin) -> bool:
    """True if one alternative is allowed and none is denied: what is denied in one way must not be had in the other."""
    if any(permissions.denies(need, origin) for need in alternatives):
        return False
    return any(permissions.allows(need, origin) for need in alternatives)
