"""Extensions of this door beyond the service, in fields that every SDK lets pass.

    message attribute `longhall.priority`      a Number: the level of the message; the receiver sees it again
    `longhall.reply-to`                        a String: the queue that answers go to, by name, URL or ARN
    `longhall.correlation-id`                  a String: answers and the fate have it too
    `longhall.report-fate`                     a String, "true": the reply queue hears what becomes of the message
    `longhall.answers`                         a String, the receipt handle of a message of this queue: what is sent is
                                               the answer to it. It goes to the reply queue that the message names, and
                                               the message is deleted in the same step
    `longhall.fate`                            seen by receivers of a reply queue: what became of a message
    `longhall.stamp`                           a Number: the sender's order, for queues with `LonghallLateStamped`
    an element of `MessageAttributeNames`      `longhall.filter=` and a selector or a policy: only what fits is
                                               received, and the rest stays for others
                                               `longhall.weights=` and queues with weights, "orders=3,mail=1": messages
                                               of all of them, in proportion; each has the attribute `longhall.queue`
                                               `longhall.partition`, `longhall.offset`, `longhall.sequence`: Numbers
                                               that say where the message is in its log, for who names them
    queue attributes `LonghallPriorities`,     how many levels a queue has, from 1 to 256, chosen when it is made;
    `LonghallSettled`,                         whether it keeps what is deleted until retention ends: `free` or `keep`;
    `LonghallAcknowledge`,                     how many hosts of a cluster have what was taken: `one`, `quorum`, `all`;
    `LonghallPlacement`                        where a cluster keeps it, chosen when it is made: `hall`, `any-host`,
                                               `parts`, `share` or `wing:NAME`

A client that uses none of these sees the service unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from longhall.doors.sqs.outgoing import ExtendedOutgoing
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, SqsError
from longhall.names import is_legal_name
from longhall.queues.messages import Attribute, Delivery, Outgoing

PRIORITY: Final = "longhall.priority"
PRIORITY_MAX: Final = 254
REPLY_TO: Final = "longhall.reply-to"
CORRELATION_ID: Final = "longhall.correlation-id"
REPORT_FATE: Final = "longhall.report-fate"
ANSWERS: Final = "longhall.answers"
FATE: Final = "longhall.fate"
STAMP: Final = "longhall.stamp"
QUEUE: Final = "longhall.queue"
PARTITION: Final = "longhall.partition"
OFFSET: Final = "longhall.offset"
SEQUENCE: Final = "longhall.sequence"
WEIGHTS: Final = "longhall.weights="
WEIGHTED_QUEUES_MAX: Final = 100
CORRELATION_BYTES_MAX: Final = 1024
FILTER: Final = "longhall.filter="

_LEVEL = re.compile(rb"[0-9]{1,3}")
_STAMP = re.compile(rb"[0-9]{1,18}")
_WEIGHT = re.compile(r"[0-9]{1,7}")
_OURS: Final = frozenset({PRIORITY, REPLY_TO, CORRELATION_ID, REPORT_FATE, ANSWERS, STAMP})
_POSITIONS: Final = frozenset({PARTITION, OFFSET, SEQUENCE})


def extended(message: Outgoing) -> Outgoing:
    """The message with the extension attributes removed and their values applied. Raises SqsError."""
    attributes = message.attributes
    if _OURS.isdisjoint(attributes):
        return message
    others = {name: other for name, other in attributes.items() if name not in _OURS}
    ours = ExtendedOutgoing(body=message.body, attributes=others, sent=attributes)
    if PRIORITY in attributes:
        ours.priority = _level(attributes[PRIORITY])
    if STAMP in attributes:
        ours.stamp = _stamp(attributes[STAMP])
    ours.reply_to = queue_named(_text(attributes, REPLY_TO))
    if REPLY_TO in attributes and not is_legal_name(ours.reply_to):
        raise SqsError(INVALID_PARAMETER, f"The message attribute '{REPLY_TO}' must be the name of a queue.")
    ours.correlation_id = _text(attributes, CORRELATION_ID)
    if len(ours.correlation_id.encode()) > CORRELATION_BYTES_MAX:
        said = f"The message attribute '{CORRELATION_ID}' can have {CORRELATION_BYTES_MAX} bytes."
        raise SqsError(INVALID_PARAMETER, said)
    report = _text(attributes, REPORT_FATE)
    if report not in ("", "true", "false"):
        raise SqsError(INVALID_PARAMETER, f"The message attribute '{REPORT_FATE}' must be 'true' or 'false'.")
    ours.report_fate = report == "true"
    if ours.report_fate and not ours.reply_to:
        said = f"The message attribute '{REPORT_FATE}' needs '{REPLY_TO}': the queue that is to hear of it."
        raise SqsError(INVALID_PARAMETER, said)
    ours.answers = _text(attributes, ANSWERS)
    return ours


def queue_named(address: str) -> str:
    """The name of a queue that is given by its name, its URL or its ARN."""
    return address.rpartition(":" if address.startswith("arn:") else "/")[2]


def received_attributes(delivery: Delivery) -> dict[str, Attribute]:
    """The extension attributes that a receiver sees of a delivery."""
    found: dict[str, Attribute] = {}
    if delivery.priority:
        found[PRIORITY] = ("Number", b"%d" % delivery.priority)
    if delivery.reply_to:
        found[REPLY_TO] = ("String", delivery.reply_to.encode())
    if delivery.correlation_id:
        found[CORRELATION_ID] = ("String", delivery.correlation_id.encode())
    if delivery.report_fate:
        found[REPORT_FATE] = ("String", b"true")
    if delivery.stamp:
        found[STAMP] = ("Number", b"%d" % delivery.stamp)
    if delivery.fate:
        found[FATE] = ("String", delivery.fate.encode())
    return found


def _level(attribute: Attribute) -> int:
    data_type, value = attribute
    if data_type != "Number" or _LEVEL.fullmatch(value) is None or int(value) > PRIORITY_MAX:
        raise SqsError(
            INVALID_PARAMETER, f"The message attribute '{PRIORITY}' must be a Number from 0 to {PRIORITY_MAX}."
        )
    return int(value)


def _stamp(attribute: Attribute) -> int:
    data_type, value = attribute
    if data_type != "Number" or _STAMP.fullmatch(value) is None:
        raise SqsError(INVALID_PARAMETER, f"The message attribute '{STAMP}' must be a Number of up to 18 digits.")
    return int(value)


def positions_in(names: Sequence[str]) -> frozenset[str]:
    """The attributes of the position that a receive request names."""
    return _POSITIONS.intersection(names)


def position_attributes(delivery: Delivery, names: frozenset[str]) -> dict[str, Attribute]:
    """Where a message is in its log, as far as the receiver wants to know."""
    sequence = delivery.sequence if delivery.sequence >= 0 else delivery.offset
    every = {PARTITION: delivery.partition, OFFSET: delivery.offset, SEQUENCE: sequence}
    return {name: ("Number", b"%d" % number) for name, number in every.items() if name in names}


def weights_in(names: Sequence[str], queue: str) -> dict[str, int]:
    """The queues and weights among the attribute names of a receive request for `queue`, which is one of them; empty if
    the request is for one queue. Raises SqsError.
    """
    found = [name for name in names if name.startswith(WEIGHTS)]
    if not found:
        return {}
    weights: dict[str, int] = {}
    for pair in found[0].removeprefix(WEIGHTS).split(","):
        name, equals, weight = pair.partition("=")
        if not equals or not is_legal_name(name) or name in weights or _WEIGHT.fullmatch(weight) is None:
            raise SqsError(INVALID_PARAMETER, f"Write '{WEIGHTS}' with queues and weights: '{WEIGHTS}orders=3,mail=1'.")
        weights[name] = int(weight)
    if len(found) > 1 or len(weights) > WEIGHTED_QUEUES_MAX:
        raise SqsError(
            INVALID_PARAMETER, f"A request can have one '{WEIGHTS}' with up to {WEIGHTED_QUEUES_MAX} queues."
        )
    if queue not in weights:
        raise SqsError(INVALID_PARAMETER, f"The queue of the request, '{queue}', must be one of those in '{WEIGHTS}'.")
    return weights


def _text(attributes: dict[str, Attribute], name: str) -> str:
    attribute = attributes.get(name)
    if attribute is None:
        return ""
    if attribute[0] != "String":
        raise SqsError(INVALID_PARAMETER, f"The message attribute '{name}' must be a String.")
    return attribute[1].decode()


def filter_in(names: Sequence[str]) -> str:
    """The filter among the attribute names of a receive request; empty if there is none. Raises SqsError."""
    found = [name for name in names if name.startswith(FILTER)]
    if len(found) > 1:
        raise SqsError(INVALID_PARAMETER, "A request can have one filter.")
    return found[0].removeprefix(FILTER) if found else ""
