"""Ordinary work through an SDK from before SQS spoke JSON; run by an environment of its own, see ../test_old_sdk.py.

Prints one JSON line for each case: `{"case": name, "saw": ...}` or `"failed"` with the reason.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import boto3
import botocore
from botocore.exceptions import ClientError

ENDPOINT, RUN = sys.argv[1:3]
SETTINGS: dict[str, Any] = {
    "endpoint_url": ENDPOINT,
    "region_name": "us-east-1",
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
}
sqs = boto3.client("sqs", **SETTINGS)
ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "w\u00f6rd <&>"},
    "number": {"DataType": "Number", "StringValue": "12"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}


def queue(name: str, **attributes: str) -> str:
    return str(sqs.create_queue(QueueName=f"old-{name}-{RUN}", Attributes=attributes)["QueueUrl"])


def code(call: Any, **members: Any) -> list[str]:
    try:
        call(**members)
    except ClientError as error:
        return [error.response["Error"]["Code"], type(error).__name__]
    return ["none", "none"]


def protocol() -> Any:
    return sqs.meta.service_model.metadata["protocol"]


def round_trip() -> Any:
    url = queue("round")
    body = 'h\u00e4llo <xml> & "quotes"\n\ttabs'
    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=ATTRIBUTES)
    said = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"], WaitTimeSeconds=2)
    (message,) = said["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return {
        "same": message["Body"] == body and message["MessageAttributes"] == ATTRIBUTES,
        "id": message["MessageId"] == sent["MessageId"],
        "count": message["Attributes"]["ApproximateReceiveCount"],
        "left": len(sqs.receive_message(QueueUrl=url).get("Messages", [])),
    }


def batches() -> Any:
    url = queue("batch")
    entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(9)] + [{"Id": "bad", "MessageBody": "a\x00b"}]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    got: list[Any] = []
    while len(got) < 9:
        got += sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)["Messages"]
    handles = [{"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate(got)]
    changes = [{**each, "VisibilityTimeout": 60} for each in handles]
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=changes)
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=handles)
    return {
        "sent": len(sent["Successful"]),
        "failed": [[each["Id"], each["Code"], each["SenderFault"]] for each in sent["Failed"]],
        "bodies": sorted(each["Body"] for each in got),
        "changed": len(changed["Successful"]),
        "deleted": len(deleted["Successful"]),
    }


def attributes_and_tags() -> Any:
    url = queue("attributes", VisibilityTimeout="45")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "5", "VisibilityTimeout": "50"})
    said = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds", "VisibilityTimeout"])["Attributes"]
    sqs.tag_queue(QueueUrl=url, Tags={"a": "1", "b": "2"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a"])
    return {
        "attributes": said,
        "tags": sqs.list_queue_tags(QueueUrl=url)["Tags"],
        "url": sqs.get_queue_url(QueueName=f"old-attributes-{RUN}")["QueueUrl"] == url,
        "listed": sqs.list_queues(QueueNamePrefix=f"old-attributes-{RUN}")["QueueUrls"] == [url],
    }


def fifo() -> Any:
    name = f"old-order-{RUN}.fifo"
    settings = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=name, Attributes=settings)["QueueUrl"]
    for text in ("1", "2", "2", "3"):
        sqs.send_message(QueueUrl=url, MessageBody=text, MessageGroupId="g")
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)["Messages"]
    return [each["Body"] for each in got]


def errors() -> Any:
    url = queue("errors")
    absent = url + "-absent"
    return {
        "absent": code(sqs.send_message, QueueUrl=absent, MessageBody="x"),
        "characters": code(sqs.send_message, QueueUrl=url, MessageBody="\x01"),
        "handle": code(sqs.delete_message, QueueUrl=url, ReceiptHandle="nonsense"),
        "empty": code(sqs.delete_message_batch, QueueUrl=url, Entries=[]),
        "value": code(sqs.set_queue_attributes, QueueUrl=url, Attributes={"DelaySeconds": "901"}),
        "name": code(sqs.set_queue_attributes, QueueUrl=url, Attributes={"Unheard": "1"}),
        "differs": code(sqs.create_queue, QueueName=f"old-errors-{RUN}", Attributes={"DelaySeconds": "7"}),
    }


def resource() -> Any:
    it = boto3.resource("sqs", **SETTINGS).create_queue(QueueName=f"old-resource-{RUN}")
    it.send_message(MessageBody="through the resource")
    (message,) = it.receive_messages(WaitTimeSeconds=2)
    message.delete()
    it.delete()
    return message.body


def main() -> None:
    print(json.dumps({"case": "version", "saw": botocore.__version__}))
    for case in (protocol, round_trip, batches, attributes_and_tags, fifo, errors, resource):
        try:
            line = {"case": case.__name__, "saw": case()}
        except Exception:
            line = {"case": case.__name__, "failed": traceback.format_exc()}
        print(json.dumps(line), flush=True)


main()
