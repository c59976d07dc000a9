"""The table of operations: which permission each operation of the service needs, whichever door asks.

    needs(...)       the permissions that the request names; of an alternative one is enough
    LISTED           none: the reply has only what the caller may describe
    OF_SESSION       none: it ends what the session of the caller has; consuming was permitted when it began
    BY_KAFKA         none here: the Kafka door checks every part of the request where it is answered
    INTERNAL         never from a client: processes of Longhall ask each other

An operation without a row is refused, and a test fails. This module does not know the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from longhall.broker.queues.sending.publication import Publication
from longhall.cluster.placement import move_operations as moves
from longhall.cluster.placement import part_operations as parts
from longhall.cluster.placement import share_operations as shares
from longhall.cluster.placement import topic_operations as topics
from longhall.cluster.placement import transaction_operations as transactions
from longhall.cluster.rpc.operation import Operation
from longhall.directory.access_rules import CLUSTER_NAME, AccessAction, Kind
from longhall.exchanges.field_table import EMPTY_TABLE, MalformedTable, decode_value, split_table
from longhall.exchanges.names import hall_name
from longhall.front.permissions import Need
from longhall.service import access_operations as access
from longhall.service import administration as cluster
from longhall.service import audit_operations as audit
from longhall.service import broker_operations as brokers
from longhall.service import directory_operations as directory
from longhall.service import exchange_operations as exchanges
from longhall.service import kafka_operations as kafka
from longhall.service import limit_operations as limits
from longhall.service import partition_operations as partitions
from longhall.service import policy_operations as policies
from longhall.service import queue_operations as queues
from longhall.service import seal_operations as seals
from longhall.service import usage_operations as usage

DEFAULT_EXCHANGE: Final = "amq.default"  # RabbitMQ's name of the exchange without a name.

Alternatives = tuple[Need, ...]
Asked = Callable[[Any], list[Alternatives]]
Pair = tuple[AccessAction, Kind]


class Guarded(NamedTuple):
    """One row. `pairs` has the alternatives of each need without names, for the table in the documentation."""

    note: str
    pairs: tuple[tuple[Pair, ...], ...] = ()
    asked: Asked | None = None
    is_internal: bool = False
    is_listed: bool = False


LISTED: Final = Guarded("the reply has only what the caller may describe", is_listed=True)
OF_SESSION: Final = Guarded("of the caller's own session")
BY_KAFKA: Final = Guarded("checked by the Kafka door, part by part")
INTERNAL: Final = Guarded("between processes of Longhall only", is_internal=True)


def on_cluster(action: AccessAction) -> Need:
    """The need of an action on the cluster."""
    return Need(action, Kind.CLUSTER, CLUSTER_NAME)


def exchange_name(host: str, name: str) -> str:
    """The name of an exchange as a resource: as a queue of the same virtual host is named in the hall."""
    return hall_name(host, name or DEFAULT_EXCHANGE)


def publication_needs(host: str, publication: Publication) -> list[Alternatives]:
    """To publish is to write to the exchange. Through the exchange without a name it is to write to the queues that the
    keys name, or to that exchange.
    """
    to_exchange = Need(AccessAction.WRITE, Kind.EXCHANGE, exchange_name(host, publication.exchange))
    if publication.exchange:
        return [(to_exchange,)]
    return [(to_exchange, Need(AccessAction.WRITE, Kind.QUEUE, hall_name(host, key))) for key in publication.keys]


# Rows


def _queue(*actions: AccessAction) -> Guarded:
    """One of these actions on the queue of the operation."""
    return _named(Kind.QUEUE, lambda op: op.queue, *actions)


def _named(kind: Kind, name: Callable[[Any], str], *actions: AccessAction) -> Guarded:
    def asked(op: Any) -> list[Alternatives]:
        return [tuple(Need(action, kind, name(op)) for action in actions)]

    return Guarded("", (tuple((action, kind) for action in actions),), asked)


def _cluster(action: AccessAction) -> Guarded:
    need: list[Alternatives] = [(on_cluster(action),)]
    return Guarded("", (((action, Kind.CLUSTER),),), lambda op: need)


def _several(asked: Asked, *pairs: tuple[Pair, ...], note: str = "") -> Guarded:
    return Guarded(note, pairs, asked)


def _one(action: AccessAction, kind: Kind, name: str) -> Alternatives:
    return (Need(action, kind, name),)


def _create_queue(op: queues.CreateQueue) -> list[Alternatives]:
    needs: list[Alternatives] = [(Need(AccessAction.CREATE, Kind.QUEUE, op.queue), on_cluster(AccessAction.CREATE))]
    if op.topic:
        needs.append(_one(AccessAction.READ, Kind.TOPIC, op.topic))
    return needs


def _settle_with_sends(op: queues.SettleWithSends) -> list[Alternatives]:
    targets = [_one(AccessAction.WRITE, Kind.QUEUE, sent.queue or sent.topic) for sent in op.sends]
    return [_one(AccessAction.READ, Kind.QUEUE, op.queue), *targets]


def _start_move(op: queues.StartMove) -> list[Alternatives]:
    if not op.target:  # Each back to the queue that it came from: no new way for messages.
        return [(Need(AccessAction.ALTER, Kind.QUEUE, op.queue), Need(AccessAction.READ, Kind.QUEUE, op.queue))]
    return [
        (Need(AccessAction.READ, Kind.QUEUE, op.queue), Need(AccessAction.ALTER, Kind.QUEUE, op.queue)),
        (Need(AccessAction.WRITE, Kind.QUEUE, op.target), Need(AccessAction.ALTER, Kind.QUEUE, op.target)),
    ]


def _cancel_move(op: queues.CancelMove) -> list[Alternatives]:
    if not op.queue:
        return [(on_cluster(AccessAction.CLUSTER_ACTION),)]
    return [(Need(AccessAction.READ, Kind.QUEUE, op.queue), Need(AccessAction.ALTER, Kind.QUEUE, op.queue))]


def _declare_exchange(op: exchanges.DeclareExchange) -> list[Alternatives]:
    exchange = op.exchange
    name = exchange_name(exchange.host, exchange.name)
    needs: list[Alternatives] = [(Need(AccessAction.CREATE, Kind.EXCHANGE, name), on_cluster(AccessAction.CREATE))]
    alternate = _argument(exchange.arguments, "alternate-exchange")
    if alternate:
        needs.append(_one(AccessAction.READ, Kind.EXCHANGE, name))
        needs.append(_one(AccessAction.WRITE, Kind.EXCHANGE, exchange_name(exchange.host, alternate)))
    return needs


def _argument(table: bytes, name: str) -> str:
    if not table or table == EMPTY_TABLE:
        return ""
    try:
        found = {key: value for key, value in split_table(table)[0] if key == name}
        value = decode_value(found[name]) if name in found else ""
    except MalformedTable:
        return ""  # The operation itself is refused.
    return value if isinstance(value, str) else ""


def _bind(op: exchanges.BindExchange | exchanges.UnbindExchange) -> list[Alternatives]:
    one = op.binding
    source = _one(AccessAction.READ, Kind.EXCHANGE, exchange_name(one.host, one.source))
    if one.to_exchange:
        return [_one(AccessAction.WRITE, Kind.EXCHANGE, exchange_name(one.host, one.destination)), source]
    return [_one(AccessAction.WRITE, Kind.QUEUE, one.destination), source]


def _publish(op: exchanges.PublishMessages) -> list[Alternatives]:
    return [need for one in op.publications for need in publication_needs(op.host, one)]


def _commit(op: exchanges.CommitTransaction) -> list[Alternatives]:
    return [need for one in op.publications for need in publication_needs(op.host, one)]


def _exchange(action: AccessAction) -> Guarded:
    return _named(Kind.EXCHANGE, lambda op: exchange_name(op.host, op.name), action)


def _user(name: Callable[[Any], str], action: AccessAction) -> Guarded:
    """An action on a user. The permission to alter a user includes that to log in as this user."""
    note = "alter on the cluster too, for a user who has that" if action is AccessAction.ALTER else ""
    return _named(Kind.USER, name, action)._replace(note=note)


_READ_QUEUE: Final = (AccessAction.READ, Kind.QUEUE)
_WRITE_QUEUE: Final = (AccessAction.WRITE, Kind.QUEUE)
_WRITE_EXCHANGE: Final = (AccessAction.WRITE, Kind.EXCHANGE)
_ALTER_QUEUE: Final = (AccessAction.ALTER, Kind.QUEUE)
_CREATE_CLUSTER: Final = (AccessAction.CREATE, Kind.CLUSTER)

OPERATION_PERMISSIONS: Final[dict[type[Operation[Any]], Guarded]] = {
    # Queues
    queues.CreateQueue: _several(
        _create_queue,
        ((AccessAction.CREATE, Kind.QUEUE), _CREATE_CLUSTER),
        note="and read on the topic of a queue over one",
    ),
    queues.DeleteQueue: _queue(AccessAction.DELETE),
    queues.DescribeQueue: _queue(AccessAction.DESCRIBE),
    queues.ListQueues: LISTED,
    queues.ConfigureQueue: _queue(AccessAction.ALTER_CONFIGS),
    queues.SwitchQueue: _queue(AccessAction.ALTER),
    queues.PurgeQueue: _queue(AccessAction.DELETE),
    queues.MeasureQueue: _queue(AccessAction.DESCRIBE),
    queues.CountQueue: _queue(AccessAction.DESCRIBE),
    queues.LocateQueue: INTERNAL,
    queues.CheckRoom: INTERNAL,
    queues.ListDeadLetterSources: _queue(AccessAction.DESCRIBE)._replace(is_listed=True),
    queues.ForkQueue: _several(
        lambda op: [
            _one(AccessAction.READ, Kind.QUEUE, op.queue),
            (Need(AccessAction.CREATE, Kind.QUEUE, op.name), on_cluster(AccessAction.CREATE)),
        ],
        (_READ_QUEUE,),
        ((AccessAction.CREATE, Kind.QUEUE), _CREATE_CLUSTER),
    ),
    queues.LocateFork: INTERNAL,
    # Messages
    queues.SendMessages: _queue(AccessAction.WRITE),
    queues.DeliverOutbox: INTERNAL,
    queues.ReceiveMessages: _queue(AccessAction.READ),
    queues.ReceiveFromAny: _several(
        lambda op: [_one(AccessAction.READ, Kind.QUEUE, name) for name in op.weights], (_READ_QUEUE,), note="of each"
    ),
    queues.SettleMessages: _queue(AccessAction.READ),
    queues.SettleWithSends: _several(_settle_with_sends, (_READ_QUEUE,), (_WRITE_QUEUE,), note="write on each target"),
    queues.ChangeLeases: _queue(AccessAction.READ),
    queues.ReturnUndelivered: _queue(AccessAction.READ),
    queues.AnswerMessage: _several(  # The reply queue is known where the message is stored, and is checked there.
        lambda op: [_one(AccessAction.READ, Kind.QUEUE, op.queue)],
        (_READ_QUEUE,),
        (_WRITE_QUEUE,),
        note="write on the reply queue that the message names",
    ),
    queues.BeginUpload: _queue(AccessAction.WRITE),
    queues.AddUploadPart: _queue(AccessAction.WRITE),
    queues.FinishUpload: _queue(AccessAction.WRITE),
    queues.AbortUpload: _queue(AccessAction.WRITE),
    queues.ReadPart: _queue(AccessAction.READ),
    queues.RewindQueue: _queue(AccessAction.ALTER),
    queues.PeekMessages: _queue(AccessAction.READ),
    queues.ListLeases: _queue(AccessAction.READ),
    queues.SearchMessages: _queue(AccessAction.READ),
    queues.ListLetters: _queue(AccessAction.READ),
    queues.ReadLetter: _queue(AccessAction.READ),
    queues.EditLetter: _several(
        lambda op: [_one(AccessAction.READ, Kind.QUEUE, op.queue), _one(AccessAction.WRITE, Kind.QUEUE, op.queue)],
        (_READ_QUEUE,),
        (_WRITE_QUEUE,),
    ),
    queues.StartMove: _several(
        _start_move, (_READ_QUEUE, _ALTER_QUEUE), (_WRITE_QUEUE, _ALTER_QUEUE), note="on the source; on the target"
    ),
    queues.CancelMove: _several(
        _cancel_move, (_READ_QUEUE, _ALTER_QUEUE), note="cluster-action on the cluster if the queue is not named"
    ),
    queues.ListMoves: _queue(AccessAction.DESCRIBE),
    # Exchanges
    exchanges.DeclareExchange: _several(
        _declare_exchange,
        ((AccessAction.CREATE, Kind.EXCHANGE), _CREATE_CLUSTER),
        note="with an alternate exchange read on it and write on the alternate",
    ),
    exchanges.DescribeExchange: _exchange(AccessAction.DESCRIBE),
    exchanges.DeleteExchange: _exchange(AccessAction.DELETE),
    exchanges.BindExchange: _several(
        _bind,
        (_WRITE_QUEUE,),
        ((AccessAction.READ, Kind.EXCHANGE),),
        note="write on the destination, read on the source",
    ),
    exchanges.UnbindExchange: _several(
        _bind,
        (_WRITE_QUEUE,),
        ((AccessAction.READ, Kind.EXCHANGE),),
        note="write on the destination, read on the source",
    ),
    exchanges.ListExchanges: LISTED,
    exchanges.ListBindings: LISTED,
    exchanges.FindRoute: _named(
        Kind.EXCHANGE, lambda op: exchange_name(op.host, op.exchange), AccessAction.DESCRIBE
    )._replace(is_listed=True),
    exchanges.AddVirtualHost: _cluster(AccessAction.CLUSTER_ACTION),
    exchanges.RemoveVirtualHost: _cluster(AccessAction.CLUSTER_ACTION),
    exchanges.ListVirtualHosts: LISTED,
    exchanges.PublishMessages: _several(
        _publish, (_WRITE_EXCHANGE, _WRITE_QUEUE), note="write on the queue counts at the default exchange"
    ),
    exchanges.UseQueue: _queue(AccessAction.DESCRIBE),
    exchanges.RemoveQueue: _queue(AccessAction.DELETE),
    exchanges.ClearQueue: _queue(AccessAction.READ),
    exchanges.RetireQueue: INTERNAL,
    exchanges.AddConsumer: _queue(AccessAction.READ),
    exchanges.CancelConsumer: OF_SESSION,
    exchanges.GiveCredit: OF_SESSION,
    exchanges.WithdrawCredit: OF_SESSION,
    exchanges.LimitChannel: OF_SESSION,
    exchanges.TakeMessage: _queue(AccessAction.READ),
    exchanges.EndHeld: OF_SESSION,
    exchanges.CommitTransaction: _several(
        _commit, (_WRITE_EXCHANGE, _WRITE_QUEUE), note="what is acknowledged is of the caller's own session"
    ),
    exchanges.ReplyDirectly: OF_SESSION._replace(note="the address of the reply is a secret of who asked"),
    # Policies
    policies.SetPolicy: _cluster(AccessAction.ALTER_CONFIGS),
    policies.RemovePolicy: _cluster(AccessAction.ALTER_CONFIGS),
    policies.ListPolicies: _cluster(AccessAction.DESCRIBE_CONFIGS),
    policies.DescribeQueues: LISTED,
    # The cluster
    cluster.AddHost: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.DrainHost: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.MoveReplica: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.SpreadReplicas: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.TransferLeadership: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.DescribeReplication: _cluster(AccessAction.DESCRIBE),
    cluster.SetReplicationFactor: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.AddGroup: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.RemoveGroup: _cluster(AccessAction.CLUSTER_ACTION),
    cluster.MapCluster: _cluster(AccessAction.DESCRIBE),
    cluster.BalanceGroups: _several(
        lambda op: [(on_cluster(AccessAction.DESCRIBE if op.dry_run else AccessAction.CLUSTER_ACTION),)],
        ((AccessAction.CLUSTER_ACTION, Kind.CLUSTER),),
        note="describe for a dry run",
    ),
    partitions.PlaceTopic: _cluster(AccessAction.CLUSTER_ACTION),
    partitions.PlaceQueue: _cluster(AccessAction.CLUSTER_ACTION),
    partitions.CancelQueueMove: _cluster(AccessAction.CLUSTER_ACTION),
    partitions.MovePartitions: _cluster(AccessAction.CLUSTER_ACTION),
    partitions.CancelPartitionMoves: _cluster(AccessAction.CLUSTER_ACTION),
    partitions.ListPartitionMoves: _cluster(AccessAction.DESCRIBE),
    cluster.RaiseFeatureLevel: _several(
        lambda op: [(on_cluster(AccessAction.DESCRIBE if op.dry_run else AccessAction.CLUSTER_ACTION),)],
        ((AccessAction.CLUSTER_ACTION, Kind.CLUSTER),),
        note="describe for a dry run",
    ),
    cluster.ScrubNodes: _several(
        lambda op: [(on_cluster(AccessAction.CLUSTER_ACTION if op.begin else AccessAction.DESCRIBE),)],
        ((AccessAction.CLUSTER_ACTION, Kind.CLUSTER),),
        note="describe for the progress",
    ),
    brokers.ConfigureBroker: _cluster(AccessAction.ALTER_CONFIGS),
    brokers.ListBrokerConfigurations: _cluster(AccessAction.DESCRIBE_CONFIGS),
    kafka.AnswerKafkaRequest: BY_KAFKA,
    kafka.ReserveProducerIds: INTERNAL,
    audit.AppendAudit: INTERNAL,
    usage.AppendUsage: INTERNAL,
    # Data keys of sealed queues and topics
    seals.ReadKeyRing: INTERNAL,
    seals.AddDataKey: INTERNAL,
    seals.RewrapDataKey: INTERNAL,
    seals.DestroyDataKey: INTERNAL,
    seals.ShowSealing: _cluster(AccessAction.DESCRIBE_CONFIGS),
    seals.RotateDataKey: _cluster(AccessAction.ALTER_CONFIGS),
    seals.ForgetDataKey: _cluster(AccessAction.ALTER_CONFIGS),
    # Users and rules
    directory.AddTenant: _cluster(AccessAction.ALTER),
    directory.EnableTenant: _cluster(AccessAction.ALTER),
    directory.SealTenant: _cluster(AccessAction.ALTER),
    directory.RemoveTenant: _cluster(AccessAction.ALTER),
    directory.ListTenants: _cluster(AccessAction.DESCRIBE),
    directory.AddUser: _several(
        lambda op: [
            (on_cluster(AccessAction.ALTER),) if op.administrator else _one(AccessAction.ALTER, Kind.USER, op.name)
        ],
        ((AccessAction.ALTER, Kind.USER),),
        note="alter on the cluster for an administrator",
    ),
    directory.EnableUser: _user(lambda op: op.name, AccessAction.ALTER),
    directory.SetAdministrator: _cluster(AccessAction.ALTER),
    directory.RemoveUser: _user(lambda op: op.name, AccessAction.ALTER),
    directory.ListUsers: _user(lambda op: "*", AccessAction.DESCRIBE),
    directory.ReplacePassword: _user(lambda op: op.name, AccessAction.ALTER),
    directory.ChangeScramKeys: _user(lambda op: op.name, AccessAction.ALTER),
    directory.AddAccessKey: _user(lambda op: op.user, AccessAction.ALTER),
    directory.RemoveAccessKey: _cluster(AccessAction.ALTER),
    directory.AddToken: _user(lambda op: op.user, AccessAction.ALTER),
    directory.RemoveToken: _cluster(AccessAction.ALTER),
    directory.EndSession: INTERNAL,
    directory.ChangeDirectory: _cluster(AccessAction.ALTER),
    directory.FollowDirectory: INTERNAL,
    access.ChangeAccess: _cluster(AccessAction.ALTER),
    access.ListAccess: _cluster(AccessAction.DESCRIBE),
    access.GrantRoles: _cluster(AccessAction.ALTER),
    limits.ChangeLimits: _cluster(AccessAction.ALTER_CONFIGS),
    limits.ListLimits: _cluster(AccessAction.DESCRIBE_CONFIGS),
    limits.SetRateLimit: _cluster(AccessAction.ALTER_CONFIGS),
    limits.RemoveRateLimit: _cluster(AccessAction.ALTER_CONFIGS),
    limits.ListRateLimits: _cluster(AccessAction.DESCRIBE_CONFIGS),
    limits.ReportUse: INTERNAL,
    # Between processes
    topics.ApplyTopic: INTERNAL,
    topics.RemoveTopic: INTERNAL,
    topics.ListTopics: INTERNAL,
    topics.RemovePlacedQueue: INTERNAL,
    topics.ListPlacedQueues: INTERNAL,
    topics.NoteArchived: INTERNAL,
    topics.NoteDeletedQueue: INTERNAL,
    topics.MeasureTopics: INTERNAL,
    topics.MeasureLags: INTERNAL,
    topics.MeasureTraffic: INTERNAL,
    transactions.VerifyPartition: INTERNAL,
    transactions.WriteMarkers: INTERNAL,
    transactions.SettleInTransaction: INTERNAL,
    transactions.AppendInTransaction: INTERNAL,
    moves.ReadPiece: INTERNAL,
    moves.AppendPiece: INTERNAL,
    moves.CompleteCopy: INTERNAL,
    moves.ProveCopy: INTERNAL,
    moves.DiscardCopy: INTERNAL,
    moves.ListQueueLogs: INTERNAL,
    moves.ReadQueueState: INTERNAL,
    moves.AppendQueueState: INTERNAL,
    moves.CompleteQueueCopy: INTERNAL,
    parts.MeasureParts: INTERNAL,
    parts.ChangeParts: INTERNAL,
    shares.ListShareGroups: INTERNAL,
    shares.ListShareTopics: INTERNAL,
    shares.DescribeSharePositions: INTERNAL,
    shares.MoveSharePositions: INTERNAL,
    shares.DeleteSharePositions: INTERNAL,
    shares.DeleteShareGroup: INTERNAL,
}

# To change these of a user who may alter the cluster needs the same permission.
OPERATIONS_OF_ACCOUNTS: Final = (
    directory.EnableUser,
    directory.RemoveUser,
    directory.ReplacePassword,
    directory.ChangeScramKeys,
    directory.AddAccessKey,
    directory.AddToken,
)


def words(pairs: Iterable[tuple[Pair, ...]]) -> str:
    """The needs of a row in words."""
    return "; ".join(" or ".join(f"{action} on {_ARTICLES[kind]}" for action, kind in one) for one in pairs)


_ARTICLES: Final = {
    Kind.TOPIC: "the topic",
    Kind.QUEUE: "the queue",
    Kind.EXCHANGE: "the exchange",
    Kind.GROUP: "the group",
    Kind.TRANSACTIONAL_ID: "the transactional id",
    Kind.CLUSTER: "the cluster",
    Kind.USER: "the user",
}
