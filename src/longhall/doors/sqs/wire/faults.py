"""The errors of the service, by name, for both protocols.

A fault has two names: the shape, which SDKs of the JSON protocol map to an exception class, and the code, which the
Query protocol puts into its XML and which the JSON protocol repeats in a header, so that programs written for either
see the same code.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_AWS = "AWS.SimpleQueueService."


class Fault(NamedTuple):
    """One kind of error."""

    shape: str
    code: str
    status: int = 400
    sender: bool = True  # True if the sender caused it, False if the receiver did.

    @property
    def type(self) -> str:
        """The error type of the protocol: `Sender` or `Receiver`."""
        return "Sender" if self.sender else "Receiver"


class SqsError(Exception):
    """An error of the service, with its message. A throttled client is told how long to wait, if that is known."""

    def __init__(self, fault: Fault, message: str, retry_ms: int = 0) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_ms = retry_ms
        self.message = message


# Errors of the service's model.
BATCH_IDS_NOT_DISTINCT: Final = Fault("BatchEntryIdsNotDistinct", _AWS + "BatchEntryIdsNotDistinct")
BATCH_TOO_LONG: Final = Fault("BatchRequestTooLong", _AWS + "BatchRequestTooLong")
EMPTY_BATCH: Final = Fault("EmptyBatchRequest", _AWS + "EmptyBatchRequest")
INVALID_ADDRESS: Final = Fault("InvalidAddress", "InvalidAddress", 404)
INVALID_ATTRIBUTE_NAME: Final = Fault("InvalidAttributeName", "InvalidAttributeName")
INVALID_ATTRIBUTE_VALUE: Final = Fault("InvalidAttributeValue", "InvalidAttributeValue")
INVALID_BATCH_ID: Final = Fault("InvalidBatchEntryId", _AWS + "InvalidBatchEntryId")
INVALID_ID_FORMAT: Final = Fault("InvalidIdFormat", "InvalidIdFormat")
INVALID_CONTENTS: Final = Fault("InvalidMessageContents", "InvalidMessageContents")
INVALID_SECURITY: Final = Fault("InvalidSecurity", "InvalidSecurity", 403)
KMS_ACCESS_DENIED: Final = Fault("KmsAccessDenied", "KMS.AccessDeniedException")
KMS_DISABLED: Final = Fault("KmsDisabled", "KMS.DisabledException")
KMS_INVALID_KEY_USAGE: Final = Fault("KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException")
KMS_INVALID_STATE: Final = Fault("KmsInvalidState", "KMS.InvalidStateException")
KMS_NOT_FOUND: Final = Fault("KmsNotFound", "KMS.NotFoundException")
KMS_OPT_IN_REQUIRED: Final = Fault("KmsOptInRequired", "KMS.OptInRequired", 403)
KMS_THROTTLED: Final = Fault("KmsThrottled", "KMS.ThrottlingException")
NOT_IN_FLIGHT: Final = Fault("MessageNotInflight", _AWS + "MessageNotInflight")
OVER_LIMIT: Final = Fault("OverLimit", "OverLimit", 403)
PURGE_IN_PROGRESS: Final = Fault("PurgeQueueInProgress", _AWS + "PurgeQueueInProgress", 403)
QUEUE_DELETED_RECENTLY: Final = Fault("QueueDeletedRecently", _AWS + "QueueDeletedRecently")
NO_SUCH_QUEUE: Final = Fault("QueueDoesNotExist", _AWS + "NonExistentQueue")
NO_SUCH_QUEUE_MESSAGE: Final = "The specified queue does not exist."
QUEUE_EXISTS: Final = Fault("QueueNameExists", "QueueAlreadyExists")
INVALID_RECEIPT: Final = Fault("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404)
THROTTLED: Final = Fault("RequestThrottled", "RequestThrottled", 403)
NO_SUCH_RESOURCE: Final = Fault("ResourceNotFoundException", "ResourceNotFoundException", 404)
TOO_MANY_ENTRIES: Final = Fault("TooManyEntriesInBatchRequest", _AWS + "TooManyEntriesInBatchRequest")
UNSUPPORTED: Final = Fault("UnsupportedOperation", _AWS + "UnsupportedOperation")

# Errors that all AWS services have.
ACCESS_DENIED: Final = Fault("AccessDeniedException", "AccessDenied", 403)
EMPTY_VALUE: Final = Fault("EmptyValue", "EmptyValue")  # Of an entry of a batch.
EXPIRED: Final = Fault("RequestExpired", "RequestExpired")
INCOMPLETE_SIGNATURE: Final = Fault("IncompleteSignature", "IncompleteSignature")
INTERNAL: Final = Fault("InternalFailure", "InternalFailure", 500, sender=False)
INVALID_ACTION: Final = Fault("InvalidAction", "InvalidAction")
INVALID_PARAMETER: Final = Fault("InvalidParameterValueException", "InvalidParameterValue")
INVALID_TOKEN: Final = Fault("InvalidClientTokenId", "InvalidClientTokenId", 403)
MALFORMED: Final = Fault("SerializationException", "MalformedInput")
MALFORMED_QUERY: Final = Fault("MalformedQueryString", "MalformedQueryString")
MISSING_ACTION: Final = Fault("MissingAction", "MissingAction")
MISSING_PARAMETER: Final = Fault("MissingRequiredParameterException", "MissingParameter")
MISSING_TOKEN: Final = Fault("MissingAuthenticationToken", "MissingAuthenticationToken", 403)
UNAVAILABLE: Final = Fault("ServiceUnavailable", "ServiceUnavailable", 503, sender=False)
UNKNOWN_OPERATION: Final = Fault("UnknownOperationException", "InvalidAction")
WRONG_SIGNATURE: Final = Fault("SignatureDoesNotMatch", "SignatureDoesNotMatch", 403)


def missing(parameter: str) -> SqsError:
    """The error for a missing parameter."""
    return SqsError(MISSING_PARAMETER, f"The request must contain the parameter {parameter}.")


def wrong_value(parameter: str, value: object, reason: str) -> SqsError:
    """The error for an invalid value of a parameter."""
    shown = str(value)
    shown = shown if len(shown) <= 200 else shown[:200] + "..."
    return SqsError(INVALID_PARAMETER, f"Value {shown} for parameter {parameter} is invalid. Reason: {reason}")
