"""The names in the Query protocol of members that are lists and maps in the JSON protocol.

    JSON  "Attributes": {"DelaySeconds": "5"}        "AttributeNames": ["All"]     "Entries": [{"Id": "a"}]
    Query Attribute.1.Name=DelaySeconds              AttributeName.1=All           SendMessageBatchRequestEntry.1.Id=a
          Attribute.1.Value=5
    XML   <Attribute><Name>..</Name><Value>..</Value></Attribute>

Lists and maps are flat: every element has its own name, without an enclosing element.
"""

from __future__ import annotations

from typing import Final

# A list or map by its member's name. `{}` is the action: batches name their entries after it.
FLAT_NAMES: Final[dict[str, str]] = {
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "Attributes": "Attribute",
    "BinaryListValues": "BinaryListValue",
    "Entries": "{}RequestEntry",
    "Failed": "BatchResultErrorEntry",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "Messages": "Message",
    "QueueUrls": "QueueUrl",
    "Results": "ListMessageMoveTasksResultEntry",
    "StringListValues": "StringListValue",
    "Successful": "{}ResultEntry",
    "TagKeys": "TagKey",
    "Tags": "Tag",
    "queueUrls": "QueueUrl",
    "tags": "Tag",
}

# The names of map keys; values are always `Value`.
KEY_NAMES: Final[dict[str, str]] = {"Tag": "Key"}


def flat_name(member: str, action: str) -> str:
    """The name of the elements of a list or map."""
    return FLAT_NAMES[member].format(action)
