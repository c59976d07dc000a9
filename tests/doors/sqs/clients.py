"""boto3 in both protocols: as it is, and as it was before it learnt JSON.

The model that botocore ships says JSON today. The older one differs in its protocol, in the names that lists and maps
have there, and in the codes of its errors; these are laid over the shipped model here, so that botocore's own
serializer and parser for Query do the work.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.loaders import Loader

NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
LISTS = {
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "AttributeNameList": "AttributeName",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "BinaryList": "BinaryListValue",
    "ChangeMessageVisibilityBatchRequestEntryList": "ChangeMessageVisibilityBatchRequestEntry",
    "ChangeMessageVisibilityBatchResultEntryList": "ChangeMessageVisibilityBatchResultEntry",
    "DeleteMessageBatchRequestEntryList": "DeleteMessageBatchRequestEntry",
    "DeleteMessageBatchResultEntryList": "DeleteMessageBatchResultEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageList": "Message",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "QueueUrlList": "QueueUrl",
    "SendMessageBatchRequestEntryList": "SendMessageBatchRequestEntry",
    "SendMessageBatchResultEntryList": "SendMessageBatchResultEntry",
    "StringList": "StringListValue",
    "TagKeyList": "TagKey",
}
MEMBERS = {
    "Attributes": "Attribute",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
    "Tags": "Tag",
    "tags": "Tag",
}
CODES = {
    "BatchEntryIdsNotDistinct": ("AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400),
    "BatchRequestTooLong": ("AWS.SimpleQueueService.BatchRequestTooLong", 400),
    "EmptyBatchRequest": ("AWS.SimpleQueueService.EmptyBatchRequest", 400),
    "InvalidBatchEntryId": ("AWS.SimpleQueueService.InvalidBatchEntryId", 400),
    "MessageNotInflight": ("AWS.SimpleQueueService.MessageNotInflight", 400),
    "OverLimit": ("OverLimit", 403),
    "PurgeQueueInProgress": ("AWS.SimpleQueueService.PurgeQueueInProgress", 403),
    "QueueDeletedRecently": ("AWS.SimpleQueueService.QueueDeletedRecently", 400),
    "QueueDoesNotExist": ("AWS.SimpleQueueService.NonExistentQueue", 400),
    "QueueNameExists": ("QueueAlreadyExists", 400),
    "ResourceNotFoundException": ("ResourceNotFoundException", 404),
    "TooManyEntriesInBatchRequest": ("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400),
    "UnsupportedOperation": ("AWS.SimpleQueueService.UnsupportedOperation", 400),
}


def shipped_model() -> dict[str, Any]:
    """The service's model as botocore has it."""
    model: dict[str, Any] = Loader().load_service_model("sqs", "service-2")
    copied: dict[str, Any] = json.loads(json.dumps(model))
    return copied


def query_model() -> dict[str, Any]:
    """The same for the Query protocol."""
    model = shipped_model()
    metadata = model["metadata"]
    for name in ("awsQueryCompatible", "jsonVersion", "targetPrefix", "auth"):
        metadata.pop(name, None)
    metadata.update(protocol="query", protocols=["query"], xmlNamespace=NAMESPACE)
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    for name, shape in model["shapes"].items():
        if shape["type"] == "list":
            shape["member"]["locationName"] = LISTS[name]
        elif shape["type"] == "map":
            shape["key"]["locationName"] = "Key" if name == "TagMap" else "Name"
            shape["value"]["locationName"] = "Value"
        elif shape["type"] == "structure":
            for member, reference in shape["members"].items():
                if member in MEMBERS:
                    reference["locationName"] = MEMBERS[member]
        if name in CODES:
            code, status = CODES[name]
            shape["error"] = {"code": code, "httpStatusCode": status, "senderFault": True}
    return model


@functools.cache
def _session(protocol: str) -> botocore.session.Session:
    session = botocore.session.Session(include_builtin_handlers=True)
    if protocol == "query":
        directory = Path(tempfile.mkdtemp()) / "sqs" / "2012-11-05"
        directory.mkdir(parents=True)
        (directory / "service-2.json").write_text(json.dumps(query_model()))
        session.register_component("data_loader", Loader(extra_search_paths=[str(directory.parent.parent)]))
    return session


def client(
    url: str,
    protocol: str = "json",
    access_key: str = "anyone",
    secret: str = "anything",
    config: Config | None = None,
) -> Any:
    """A client that tries everything once."""
    once = Config(retries={"max_attempts": 0}, parameter_validation=False, read_timeout=20)
    made = _session(protocol).create_client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret,
        config=once if config is None else once.merge(config),
    )
    assert made.meta.service_model.protocol == protocol
    return made
