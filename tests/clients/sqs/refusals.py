"""Every error of the service as its users see it through botocore: code, class of the exception, status.

`MODELLED` are those that the service's own model names, by class; `test_every_error.py` proves that none is missing and
that the node gives each of them. A class that the model does not know is `ClientError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from botocore.exceptions import ClientError

_AWS: Final = "AWS.SimpleQueueService."


class Refusal(NamedTuple):
    code: str
    shape: str = "ClientError"
    status: int = 400


def refusal(call: Callable[..., Any], *arguments: Any, **members: Any) -> Refusal:
    """The error of a call, which must be refused with a message."""
    with pytest.raises(ClientError) as caught:
        call(*arguments, **members)
    response = caught.value.response
    assert response["Error"]["Message"], response
    status = response["ResponseMetadata"]["HTTPStatusCode"]
    return Refusal(response["Error"]["Code"], type(caught.value).__name__, status)


BATCH_TOO_LONG: Final = Refusal(_AWS + "BatchRequestTooLong", "BatchRequestTooLong")
EMPTY_BATCH: Final = Refusal(_AWS + "EmptyBatchRequest", "EmptyBatchRequest")
IDS_NOT_DISTINCT: Final = Refusal(_AWS + "BatchEntryIdsNotDistinct", "BatchEntryIdsNotDistinct")
INVALID_ADDRESS: Final = Refusal("InvalidAddress", "InvalidAddress", 404)
INVALID_ATTRIBUTE_NAME: Final = Refusal("InvalidAttributeName", "InvalidAttributeName")
INVALID_ATTRIBUTE_VALUE: Final = Refusal("InvalidAttributeValue", "InvalidAttributeValue")
INVALID_CONTENTS: Final = Refusal("InvalidMessageContents", "InvalidMessageContents")
INVALID_ENTRY_ID: Final = Refusal(_AWS + "InvalidBatchEntryId", "InvalidBatchEntryId")
INVALID_ID_FORMAT: Final = Refusal("InvalidIdFormat", "InvalidIdFormat")
INVALID_RECEIPT: Final = Refusal("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404)
INVALID_SECURITY: Final = Refusal("InvalidSecurity", "InvalidSecurity", 403)
KMS_ACCESS_DENIED: Final = Refusal("KMS.AccessDeniedException", "KmsAccessDenied")
KMS_DISABLED: Final = Refusal("KMS.DisabledException", "KmsDisabled")
KMS_INVALID_KEY_USAGE: Final = Refusal("KMS.InvalidKeyUsageException", "KmsInvalidKeyUsage")
KMS_INVALID_STATE: Final = Refusal("KMS.InvalidStateException", "KmsInvalidState")
KMS_NOT_FOUND: Final = Refusal("KMS.NotFoundException", "KmsNotFound")
KMS_OPT_IN_REQUIRED: Final = Refusal("KMS.OptInRequired", "KmsOptInRequired", 403)
KMS_THROTTLED: Final = Refusal("KMS.ThrottlingException", "KmsThrottled")
NOT_IN_FLIGHT: Final = Refusal(_AWS + "MessageNotInflight", "MessageNotInflight")
NO_QUEUE: Final = Refusal(_AWS + "NonExistentQueue", "QueueDoesNotExist")
NO_RESOURCE: Final = Refusal("ResourceNotFoundException", "ResourceNotFoundException", 404)
OVER_LIMIT: Final = Refusal("OverLimit", "OverLimit", 403)
PURGE_IN_PROGRESS: Final = Refusal(_AWS + "PurgeQueueInProgress", "PurgeQueueInProgress", 403)
QUEUE_DELETED_RECENTLY: Final = Refusal(_AWS + "QueueDeletedRecently", "QueueDeletedRecently")
QUEUE_EXISTS: Final = Refusal("QueueAlreadyExists", "QueueNameExists")
THROTTLED: Final = Refusal("RequestThrottled", "RequestThrottled", 403)
TOO_MANY_ENTRIES: Final = Refusal(_AWS + "TooManyEntriesInBatchRequest", "TooManyEntriesInBatchRequest")
UNSUPPORTED: Final = Refusal(_AWS + "UnsupportedOperation", "UnsupportedOperation")

MODELLED: Final = {each.shape: each for each in tuple(globals().values()) if isinstance(each, Refusal)}

# Those that the model does not name: what every service of the family has.
ACCESS_DENIED: Final = Refusal("AccessDenied", status=403)
EXPIRED: Final = Refusal("RequestExpired")
INCOMPLETE_SIGNATURE: Final = Refusal("IncompleteSignature")
INVALID_ACTION: Final = Refusal("InvalidAction")
INVALID_PARAMETER: Final = Refusal("InvalidParameterValue")
INVALID_TOKEN: Final = Refusal("InvalidClientTokenId", status=403)
MISSING_PARAMETER: Final = Refusal("MissingParameter")
MISSING_TOKEN: Final = Refusal("MissingAuthenticationToken", status=403)
WRONG_SIGNATURE: Final = Refusal("SignatureDoesNotMatch", status=403)
