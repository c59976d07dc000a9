"""The functions of the broker that carry out the operations on queues, by the type of the operation.

`local` calls those of `SendMessages`, `ReceiveMessages` and `SettleMessages` itself, since every message needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from longhall.broker.queues.delivery.receive_any import WeightedWish
from longhall.broker.queues.service import QueueService
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.service import queue_operations as ops

O = TypeVar("O", bound=Operation[Any])  # noqa: E741

Action = Callable[[Any, Any, Caller], Any]


def _on(kind: type[O], action: Callable[[QueueService, O, Caller], Any]) -> tuple[type[Operation[Any]], Action]:
    return kind, action


QUEUE_ACTIONS: Final[dict[type[Operation[Any]], Action]] = dict(
    (
        _on(
            ops.SettleWithSends,
            lambda queues, op, caller: queues.settle_with_sends(op.queue, op.receipts, op.sends, caller.identity),
        ),
        _on(
            ops.ChangeLeases,
            lambda queues, op, caller: queues.change_lease(
                op.queue, op.changes, caller.identity, op.accepts, op.lease_ms_max
            ),
        ),
        _on(ops.ReturnUndelivered, lambda queues, op, caller: queues.hand_back(op.queue, op.receipts)),
        _on(
            ops.AnswerMessage,
            lambda queues, op, caller: queues.answer(op.queue, op.receipt, op.message, caller.identity),
        ),
        _on(
            ops.ReceiveFromAny,
            lambda queues, op, caller: queues.receive_any(
                op.weights,
                WeightedWish(op.count_max, op.wait_ms, op.lease_ms, op.filter, caller.identity, op.in_parts),
            ),
        ),
        _on(ops.BeginUpload, lambda queues, op, caller: queues.begin(op.queue)),
        _on(ops.AddUploadPart, lambda queues, op, caller: queues.add(op.queue, op.upload_id, op.number, op.part)),
        _on(ops.FinishUpload, lambda queues, op, caller: queues.finish(op.queue, op.upload_id, op.parts, op.message)),
        _on(ops.AbortUpload, lambda queues, op, caller: queues.abort(op.queue, op.upload_id)),
        _on(ops.ReadPart, lambda queues, op, caller: queues.read_part(op.queue, op.receipt, op.number)),
        _on(ops.RewindQueue, lambda queues, op, caller: queues.rewind(op.queue, op.to)),
        _on(ops.ForkQueue, lambda queues, op, caller: queues.fork(op.queue, op.name, op.start, op.settings)),
        _on(ops.LocateFork, lambda queues, op, caller: queues.fork_starts(op.queue, op.start)),
        _on(
            ops.PeekMessages,
            lambda queues, op, caller: queues.inspection.peek(op.queue, op.count_max, op.from_offset, op.settled),
        ),
        _on(
            ops.ListLeases, lambda queues, op, caller: queues.inspection.leased(op.queue, op.count_max, op.from_offset)
        ),
        _on(
            ops.SearchMessages,
            lambda queues, op, caller: queues.inspection.search(
                op.queue, op.filter, op.text, op.from_ms, op.until_ms, op.count_max, op.from_offset, op.settled
            ),
        ),
        _on(
            ops.ListLetters,
            lambda queues, op, caller: queues.inspection.letters(op.queue, op.count_max, op.from_position),
        ),
        _on(ops.ReadLetter, lambda queues, op, caller: queues.inspection.letter(op.queue, op.message_id)),
        _on(
            ops.EditLetter,
            lambda queues, op, caller: queues.inspection.edit_letter(
                op.queue, op.message_id, op.body, op.attributes, op.seal
            ),
        ),
        _on(
            ops.StartMove,
            lambda queues, op, caller: queues.start_move(op.queue, op.target, op.rate_max, op.ids, op.filter),
        ),
        _on(ops.CancelMove, lambda queues, op, caller: queues.cancel_move(op.task_id, op.queue)),
        _on(ops.ListMoves, lambda queues, op, caller: queues.moves(op.queue)),
        _on(ops.DescribeQueue, lambda queues, op, caller: queues.describe(op.queue)),
        _on(ops.CheckRoom, lambda queues, op, caller: queues.check_room(op.queue, op.count, op.size_bytes)),
        _on(ops.LocateQueue, lambda queues, op, caller: queues.locate(op.queue)),
        _on(ops.DeliverOutbox, lambda queues, op, caller: queues.take_in(op.queue, op.topic_id, op.batch)),
        _on(ops.ListQueues, lambda queues, op, caller: queues.names(op.prefix)),
        _on(ops.SwitchQueue, lambda queues, op, caller: queues.switch(op.queue, op.paused)),
        _on(ops.PurgeQueue, lambda queues, op, caller: queues.purge(op.queue, op.apart_ms)),
        _on(ops.MeasureQueue, lambda queues, op, caller: queues.depth(op.queue)),
        _on(ops.CountQueue, lambda queues, op, caller: queues.counts(op.queue)),
        _on(ops.ListDeadLetterSources, lambda queues, op, caller: queues.sources(op.queue)),
        _on(ops.DeleteQueue, lambda queues, op, caller: queues.delete(op.queue)),
        _on(ops.ConfigureQueue, lambda queues, op, caller: queues.configure(op.queue, op.settings)),
        _on(
            ops.CreateQueue,
            lambda queues, op, caller: (
                queues.declare(op.queue, op.topic, op.settings)
                if op.topic
                else queues.create(op.queue, op.settings, op.deleted_before_ms)
            ),
        ),
    )
)
