"""ListTransactions: transactions by state, producer and duration."""

from __future__ import annotations

import re

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.transaction_admin import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransaction,
)
from longhall.errors import Code
from longhall.topics.transaction import State

PATTERN_LENGTH_MAX = 256


def handle(door: Door, request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    known = {state.value for state in State}
    unknown = [name for name in request.state_filters if name not in known]
    pattern = None
    if request.transactional_id_pattern:
        try:
            if len(request.transactional_id_pattern) > PATTERN_LENGTH_MAX:
                raise re.error("too long")
            pattern = re.compile(request.transactional_id_pattern)
        except re.error:
            return ListTransactionsResponse(error_code=error_of(Code.INVALID_REQUEST))
    rows = door.transactor.list_transactions(
        request.state_filters, request.producer_id_filters, request.duration_filter
    )
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponseTransaction(
                transactional_id=row.transactional_id, producer_id=row.producer_id, transaction_state=row.state
            )
            for row in rows
            if pattern is None or pattern.fullmatch(row.transactional_id)
        ],
    )
