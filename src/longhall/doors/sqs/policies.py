"""The JSON documents among the attributes: the access policy, the redrive policy and the redrive allow policy.

Access policies are only checked for their form, stored and returned; the two redrive policies are enforced.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longhall.doors.sqs.addresses import queue_of_arn
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import INVALID_ATTRIBUTE_VALUE, OVER_LIMIT, SqsError, missing, wrong_value
from longhall.errors import Code, LonghallError
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service.queue_operations import DescribeQueue

POLICY_BYTES_MAX: Final = 64 * 1024
ACTIONS_MAX: Final = 7  # In one statement.
STATEMENTS_MAX: Final = 20
SOURCE_QUEUES_MAX: Final = 10

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ACCOUNT = re.compile(r"[0-9]{12}")
_ACTIONS: Final = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)
_ACTIONS_OF_OWNER: Final = frozenset(  # They cannot be granted to other accounts.
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CreateQueue",
        "DeleteQueue",
        "ListMessageMoveTasks",
        "ListQueueTags",
        "ListQueues",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)


class RedrivePolicy(msgspec.Struct, rename="camel"):
    """The target of dead letters. Some tools write the number as a string."""

    dead_letter_target_arn: str | None = None
    max_receive_count: int | str | None = None


class RedriveAllowPolicy(msgspec.Struct, rename="camel"):
    """The queues that may have this one as their dead-letter queue."""

    redrive_permission: str = ""  # Older versions stored policies without it, which mean allowAll.
    source_queue_arns: list[str] | None = None


def read_redrive_policy(text: str) -> DeadLetters:
    """A RedrivePolicy; `check_dead_letters` checks its target. Raises SqsError."""
    try:
        policy = msgspec.json.decode(text, type=RedrivePolicy)
    except (msgspec.DecodeError, RecursionError):
        said = "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."
        raise SqsError(INVALID_ATTRIBUTE_VALUE, said) from None
    if policy.dead_letter_target_arn is None or policy.max_receive_count is None:
        missing = "maxReceiveCount" if policy.max_receive_count is None else "deadLetterTargetArn"
        raise _wrong_redrive(text, f"Redrive policy does not contain mandatory attribute: {missing}.")
    count = str(policy.max_receive_count)
    attempts_max = int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 0
    if not 1 <= attempts_max <= 1000:
        reason = f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive."
        raise _wrong_redrive(text, reason)
    target_name = queue_of_arn("RedrivePolicy", policy.dead_letter_target_arn)
    # Deleting an SQS queue deletes its messages.
    return DeadLetters(queue=target_name, attempts_max=attempts_max, on_delete=False)


async def check_dead_letters(door: Door, name: str, settings: QueueSettings, caller: Caller) -> None:
    """Raises SqsError for a dead-letter queue that does not exist, or that does not allow this source queue."""
    if settings.dead_letters is None:
        return
    text = write_redrive_policy(door, settings.dead_letters)
    try:
        target = await door.service.call(DescribeQueue(settings.dead_letters.queue), caller.identity)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        raise _wrong_redrive(text, "Dead letter target does not exist.") from None
    if target.settings.fifo != settings.fifo:
        raise _wrong_redrive(text, "Dead-letter queue must be same type of queue as the source.")
    if not _allows(target.settings, name):
        raise _wrong_redrive(text, "Queue does not have permission to redrive on the dead letter queue.")


def write_redrive_policy(door: Door, dead_letters: DeadLetters) -> str:
    """The RedrivePolicy document of the settings."""
    arn = door.arn(dead_letters.queue)
    return f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{dead_letters.attempts_max}}}'


def check_redrive_allow_policy(text: str) -> None:
    """Raises SqsError for an invalid RedriveAllowPolicy."""
    try:
        policy = msgspec.json.decode(text, type=RedriveAllowPolicy)
    except (msgspec.DecodeError, RecursionError):
        raise _unsupported_allow() from None
    arns = policy.source_queue_arns
    if policy.redrive_permission not in ("allowAll", "denyAll", "byQueue"):
        raise _unsupported_allow()
    if policy.redrive_permission == "byQueue" and not arns:
        said = "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values."
        raise _wrong_allow(text, said)
    if policy.redrive_permission != "byQueue" and arns:
        said = "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."
        raise _wrong_allow(text, said)
    if arns and len(arns) > SOURCE_QUEUES_MAX:
        raise _wrong_allow(text, f"The maximum number of source queue ARNs you can specify is {SOURCE_QUEUES_MAX}.")
    for arn in arns or ():
        queue_of_arn("RedriveAllowPolicy", arn)


def _allows(target: QueueSettings, source: str) -> bool:
    """True if a queue accepts the dead letters of the queue `source`."""
    text = target.door.get("RedriveAllowPolicy")
    if not text:
        return True
    policy = msgspec.json.decode(text, type=RedriveAllowPolicy)
    if policy.redrive_permission == "byQueue":
        return any(queue_of_arn("", arn) == source for arn in policy.source_queue_arns or ())
    return policy.redrive_permission in ("", "allowAll")


def check_policy(text: str) -> None:
    """Raises SqsError for an access policy that is not a JSON object, or is too large."""
    try:
        if len(text) <= POLICY_BYTES_MAX and isinstance(msgspec.json.decode(text), dict):
            return
    except (msgspec.DecodeError, RecursionError):
        pass
    raise SqsError(INVALID_ATTRIBUTE_VALUE, "Invalid value for the parameter Policy.")


def with_permission(door: Door, name: str, policy: str, label: str, accounts: list[str], actions: list[str]) -> str:
    """The access policy with one more statement. Raises SqsError."""
    if _LABEL.fullmatch(label) is None:
        raise wrong_value("Label", label, "Must be alphanumeric characters, hyphens or underscores, 1 to 80 in length.")
    if not actions:
        raise missing("Actions")
    if not accounts:
        raise wrong_value("PrincipalId", "[]", "Unable to verify.")
    for account in accounts:
        if _ACCOUNT.fullmatch(account) is None:
            raise wrong_value("PrincipalId", account, "Unable to verify.")
    for action in actions:
        if action in _ACTIONS_OF_OWNER:
            reason = "Only the queue owner is allowed to invoke this action."
            raise wrong_value("ActionName", f"SQS:{action}", reason)
        if action not in _ACTIONS:
            reason = "Please refer to the appropriate WSDL for a list of valid actions."
            raise wrong_value("ActionName", f"SQS:{action}", reason)
    if len(actions) > ACTIONS_MAX:
        raise SqsError(OVER_LIMIT, f"{len(actions)} Actions were found, maximum allowed is {ACTIONS_MAX}.")
    document = _document(door, name, policy)
    statements = _statements(document)
    if any(statement.get("Sid") == label for statement in statements):
        raise wrong_value("Label", label, "Already exists.")
    if len(statements) >= STATEMENTS_MAX:
        raise SqsError(OVER_LIMIT, f"A policy has at most {STATEMENTS_MAX} statements.")
    principals = [f"arn:aws:iam::{account}:root" for account in accounts]
    statements.append(
        {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
            "Action": f"SQS:{actions[0]}" if len(actions) == 1 else [f"SQS:{action}" for action in actions],
            "Resource": door.arn(name),
        }
    )
    document["Statement"] = statements
    return msgspec.json.encode(document).decode()


def without_permission(door: Door, name: str, policy: str, label: str) -> str:
    """The access policy without a statement; empty if that was the last. Raises SqsError."""
    document = _document(door, name, policy)
    statements = _statements(document)
    rest = [statement for statement in statements if statement.get("Sid") != label]
    if len(rest) == len(statements):
        raise wrong_value("Label", label, "can't find label.")
    document["Statement"] = rest
    return msgspec.json.encode(document).decode() if rest else ""


def _document(door: Door, name: str, policy: str) -> dict[str, object]:
    if policy:
        document: dict[str, object] = msgspec.json.decode(policy, type=dict[str, object])
        return document
    return {"Version": "2008-10-17", "Id": f"{door.arn(name)}/SQSDefaultPolicy"}


def _statements(document: dict[str, object]) -> list[dict[str, object]]:
    """A policy may hold one statement or a list of them."""
    found = document.get("Statement", [])
    listed = found if isinstance(found, list) else [found]
    return [statement for statement in listed if isinstance(statement, dict)]


def _wrong_redrive(text: str, reason: str) -> SqsError:
    return wrong_value("RedrivePolicy", text, reason)


def _wrong_allow(text: str, reason: str) -> SqsError:
    return wrong_value("RedriveAllowPolicy", text, f"Amazon SQS can't create the redrive allow policy. {reason}")


def _unsupported_allow() -> SqsError:
    said = "Amazon SQS can't create the redrive allow policy, as it\u2019s in an unsupported format."
    return SqsError(INVALID_ATTRIBUTE_VALUE, f"Invalid value for the parameter RedriveAllowPolicy. Reason: {said}")
