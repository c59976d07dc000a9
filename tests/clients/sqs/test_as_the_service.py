"""Behaviour of Amazon SQS that its documentation does not state and that programs rely on, with boto3 and plain HTTP.

Each test does what a public test does that was validated against the service itself.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.conftest import FreshName, eventually
from tests.clients.serving import served
from tests.clients.sqs.conftest import CREDENTIALS, REGION, MakeQueue, endpoint_of
from tests.clients.sqs.words import arn, attribute, bodies, delete, nothing_comes, receive, redrive, send
from tests.left_out import leave_out

FIFO: dict[str, Any] = {"fifo": True, "ContentBasedDeduplication": "true"}
TRACE = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1"


def said(call: Any, **how: Any) -> tuple[str, str]:
    """The code and the message of a refusal."""
    with pytest.raises(ClientError) as caught:
        call(**how)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def visible_again(sqs: Any, queue: str, message: Any, seconds: int = 0) -> None:
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds)


def send_groups(sqs: Any, queue: str, *names: str) -> None:
    """Messages whose bodies are like "g1-m1": the group, and the place in it."""
    for name in names:
        send(sqs, queue, name, MessageGroupId=name.partition("-")[0])


# Refusals


def test_permissions_that_cannot_be_granted(sqs: Any, make_queue: MakeQueue) -> None:
    asked = {"QueueUrl": make_queue(), "Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}
    reason = "Reason: Only the queue owner is allowed to invoke this action."
    for action in ("RemovePermission", "CreateQueue", "TagQueue", "StartMessageMoveTask"):
        sentence = f"Value SQS:{action} for parameter ActionName is invalid. {reason}"
        assert said(sqs.add_permission, **{**asked, "Actions": [action]}) == ("InvalidParameterValue", sentence)
    code, message = said(sqs.add_permission, **{**asked, "Actions": []})
    assert (code, message) == ("MissingParameter", "The request must contain the parameter Actions.")
    code, message = said(sqs.add_permission, **{**asked, "AWSAccountIds": []})
    sentence = "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify."
    assert (code, message) == ("InvalidParameterValue", sentence)


def test_tags_and_names_that_are_refused(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()
    many = {str(number): "x" for number in range(51)}
    expected = ("InvalidParameterValue", f"Too many tags added for queue {queue.rpartition('/')[2]}.")
    assert said(sqs.tag_queue, QueueUrl=queue, Tags=many) == expected
    sentence = "Tag keys must be between 1 and 128 characters in length."
    assert said(sqs.untag_queue, QueueUrl=queue, TagKeys=[]) == ("InvalidParameterValue", sentence)
    assert said(sqs.tag_queue, QueueUrl=queue, Tags={"": "x"}) == ("InvalidParameterValue", sentence)
    sentence = "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
    assert said(sqs.get_queue_url, QueueName="") == ("InvalidParameterValue", sentence)
    sentence = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
    assert said(sqs.create_queue, QueueName="") == ("InvalidParameterValue", sentence)


# FIFO


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_a_fifo_queue_is_asked_for_in_any_case(sqs: Any, fresh_name: FreshName, word: str) -> None:
    name = fresh_name("case") + ".fifo"
    queue = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": word})["QueueUrl"]
    assert attribute(sqs, queue, "FifoQueue") == "true"
    assert sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"] == queue
    rules = "alphanumeric characters, hyphens, or underscores"
    expected = f"The name of a FIFO queue can only include {rules}, must end with .fifo suffix and be 1 to 80 in length"
    asked = {"QueueName": name.removesuffix(".fifo"), "Attributes": {"FifoQueue": word}}
    assert said(sqs.create_queue, **asked) == ("InvalidParameterValue", expected)


def test_a_receive_takes_as_many_messages_of_a_group_as_possible(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(**FIFO)
    send_groups(sqs, queue, "g1-m1", "g2-m1", "g1-m2", "g1-m3")
    assert bodies(receive(sqs, queue, 4, MaxNumberOfMessages=10)) == ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]


def test_a_receive_of_two_takes_both_of_one_group(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(**FIFO)
    send_groups(sqs, queue, "g1-m1", "g2-m1", "g1-m2", "g2-m2", "g1-m3", "g3-m1")
    first = receive(sqs, queue, 2)
    assert bodies(first) == ["g1-m1", "g1-m2"]
    delete(sqs, queue, first[:1])
    assert bodies(receive(sqs, queue, 3, MaxNumberOfMessages=10)) == ["g2-m1", "g2-m2", "g3-m1"]
    delete(sqs, queue, first[1:])
    assert bodies(receive(sqs, queue)) == ["g1-m3"]


def test_a_message_given_back_is_visible_while_a_later_one_of_its_group_is_out(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(**FIFO)
    send_groups(sqs, queue, "g1-m1", "g1-m2", "g2-m1")
    first, _ = receive(sqs, queue, 2)
    visible_again(sqs, queue, first)
    assert bodies(receive(sqs, queue, 2, MaxNumberOfMessages=10)) == ["g2-m1", "g1-m1"]
    assert nothing_comes(sqs, queue)


@pytest.mark.parametrize("out", [0, 1, 2])
def test_what_follows_a_message_that_is_out_waits_for_it(sqs: Any, make_queue: MakeQueue, out: int) -> None:
    queue = make_queue(**FIFO)
    send_groups(sqs, queue, "g-m1", "g-m2", "g-m3")
    taken = receive(sqs, queue, 3)
    for index, message in enumerate(taken):
        if index != out:
            visible_again(sqs, queue, message)
    if out:
        assert bodies(receive(sqs, queue, out, MaxNumberOfMessages=10)) == ["g-m1", "g-m2"][:out]
    assert nothing_comes(sqs, queue)


def test_a_receipt_of_a_fifo_queue_ends_with_its_lease(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(VisibilityTimeout="1", **FIFO)
    send_groups(sqs, queue, "g-m1")
    (message,) = receive(sqs, queue)
    time.sleep(1.2)
    receipt = message["ReceiptHandle"]
    prefix = f"Value {receipt} for parameter ReceiptHandle is invalid. Reason: "
    assert said(sqs.delete_message, QueueUrl=queue, ReceiptHandle=receipt) == (
        "InvalidParameterValue",
        prefix + "The receipt handle has expired.",
    )
    assert said(sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=receipt, VisibilityTimeout=5) == (
        "AWS.SimpleQueueService.MessageNotInflight",
        "The message referred to is not in flight.",
    )
    assert bodies(receive(sqs, queue)) == ["g-m1"]


def test_a_purge_forgets_deduplication_ids(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(**FIFO)
    send_groups(sqs, queue, "g-m1")
    sqs.purge_queue(QueueUrl=queue)
    send_groups(sqs, queue, "g-m1", "g-m1")
    assert bodies(receive(sqs, queue)) == ["g-m1"]
    assert nothing_comes(sqs, queue)
    name = queue.rsplit("/", 1)[1]
    expected = f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
    assert said(sqs.purge_queue, QueueUrl=queue) == ("AWS.SimpleQueueService.PurgeQueueInProgress", expected)


def test_ids_sent_before_the_scope_became_the_group_still_count(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(fifo=True)
    send(sqs, queue, "first", MessageGroupId="a", MessageDeduplicationId="1")
    scope = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=scope)
    send(sqs, queue, "repeat", MessageGroupId="b", MessageDeduplicationId="1")
    for group in "ab":
        send(sqs, queue, f"new {group}", MessageGroupId=group, MessageDeduplicationId="2")
    assert sorted(bodies(receive(sqs, queue, 3, MaxNumberOfMessages=10))) == ["first", "new a", "new b"]
    assert nothing_comes(sqs, queue)


# Leases


def test_visibility_can_be_changed_after_the_lease(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(VisibilityTimeout="1")
    send(sqs, queue, "late")
    (message,) = receive(sqs, queue)
    time.sleep(1.2)
    visible_again(sqs, queue, message, 30)
    assert nothing_comes(sqs, queue)
    visible_again(sqs, queue, message)
    visible_again(sqs, queue, message)
    assert bodies(receive(sqs, queue)) == ["late"]


def test_an_earlier_receipt_of_a_standard_queue_changes_nothing(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()
    send(sqs, queue, "twice")
    (first,) = receive(sqs, queue, VisibilityTimeout=0)
    (second,) = receive(sqs, queue, VisibilityTimeout=30)
    asked = {"QueueUrl": queue, "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0}
    assert said(sqs.change_message_visibility, **asked)[0] == "InvalidParameterValue"
    delete(sqs, queue, [first])
    assert attribute(sqs, queue, "ApproximateNumberOfMessagesNotVisible") == "1"
    delete(sqs, queue, [second])
    assert attribute(sqs, queue, "ApproximateNumberOfMessagesNotVisible") == "0"


def test_a_message_is_hidden_for_twelve_hours_in_total(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()
    send(sqs, queue, "long")
    (message,) = receive(sqs, queue)
    visible_again(sqs, queue, message, 43_100)
    time.sleep(0.01)
    asked = {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 43_200}
    total = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
    expected = f"Value 43200 for parameter VisibilityTimeout is invalid. Reason: {total}"
    assert said(sqs.change_message_visibility, **asked) == ("InvalidParameterValue", expected)


def test_a_dead_letter_is_there_when_the_receive_returns(sqs: Any, make_queue: MakeQueue) -> None:
    dead = make_queue(VisibilityTimeout="0")
    queue = make_queue(VisibilityTimeout="0", RedrivePolicy=redrive(sqs, dead, 1))
    for number in range(10):
        (sent,) = send(sqs, queue, str(number))
        receive(sqs, queue)
        assert "Messages" not in sqs.receive_message(QueueUrl=queue)
        (letter,) = sqs.receive_message(QueueUrl=dead)["Messages"]
        assert (letter["Body"], letter["MessageId"]) == (str(number), sent["MessageId"])
        delete(sqs, dead, [letter])


def test_a_queue_can_be_its_own_dead_letter_queue(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(VisibilityTimeout="0")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive(sqs, queue, 1)})
    send(sqs, queue, "round")
    for count in ("1", "2"):
        (message,) = receive(sqs, queue, MessageSystemAttributeNames=["ApproximateReceiveCount"])
        assert (message["Body"], message["Attributes"]["ApproximateReceiveCount"]) == ("round", count)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]


# Moves


def test_a_move_to_a_deleted_queue_fails_with_the_reason(sqs: Any, make_queue: MakeQueue) -> None:
    dead = make_queue()
    make_queue(RedrivePolicy=redrive(sqs, dead, 1))
    target = make_queue()
    send(sqs, dead, *(str(number) for number in range(10)))
    sqs.start_message_move_task(
        SourceArn=arn(sqs, dead), DestinationArn=arn(sqs, target), MaxNumberOfMessagesPerSecond=1
    )
    assert said(sqs.start_message_move_task, SourceArn=arn(sqs, dead)) == (
        "InvalidParameterValue",
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    )
    sqs.delete_queue(QueueUrl=target)

    def failed() -> bool:
        (task,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
        assert task["Status"] in ("RUNNING", "FAILED")
        return bool(task.get("FailureReason") == "AWS.SimpleQueueService.NonExistentQueue")

    eventually(failed, "the move failed")


def test_moves_that_are_refused(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()
    ask = sqs.start_message_move_task
    assert said(ask, SourceArn=arn(sqs, queue))[1] == "Source queue must be configured as a Dead Letter Queue."
    stop = sqs.cancel_message_move_task
    assert said(stop, TaskHandle="foobared") == ("InvalidParameterValue", "Value for parameter TaskHandle is invalid.")


# Messages


def test_message_ids_are_random(sqs: Any, make_queue: MakeQueue) -> None:
    standard, fifo, late = make_queue(), make_queue(**FIFO), make_queue(DelaySeconds="1")
    sent = [*send(sqs, standard, "a", "b"), *send(sqs, fifo, "a", "b", MessageGroupId="g"), *send(sqs, late, "a")]
    batch = [{"Id": str(number), "MessageBody": "c"} for number in range(10)]
    ids = [one["MessageId"] for one in [*sent, *sqs.send_message_batch(QueueUrl=standard, Entries=batch)["Successful"]]]
    assert len(set(ids)) == len(ids)
    assert {uuid.UUID(one).version for one in ids} == {4}
    (repeat,) = send(sqs, fifo, "a", MessageGroupId="g")
    assert repeat["MessageId"] == sent[2]["MessageId"]
    found = receive(sqs, standard, 12, VisibilityTimeout=0, MaxNumberOfMessages=10)
    assert {one["MessageId"] for one in found} <= set(ids)
    assert [one["MessageId"] for one in receive(sqs, late)] == [ids[4]]


@pytest.mark.parametrize("names", [["All"], [".*"], ["*"]])
def test_all_message_attributes_by_any_name_for_them(sqs: Any, make_queue: MakeQueue, names: list[str]) -> None:
    queue = make_queue()
    values = {name: {"DataType": "String", "StringValue": "v"} for name in ("Hello", "Help.Me", "General", "größe")}
    send(sqs, queue, "m", MessageAttributes=values)
    (message,) = receive(sqs, queue, MessageAttributeNames=names, VisibilityTimeout=0)
    assert message["MessageAttributes"] == values
    (message,) = receive(sqs, queue, MessageAttributeNames=["Hel.*"])
    assert sorted(message["MessageAttributes"]) == ["Hello", "Help.Me"]


def test_the_trace_header_travels_with_the_message(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()

    def add_trace(request: Any, **_: Any) -> None:
        request.headers["X-Amzn-Trace-Id"] = TRACE

    sqs.meta.events.register("before-send.sqs.SendMessage", add_trace)
    try:
        (sent,) = send(sqs, queue, "traced")
    finally:
        sqs.meta.events.unregister("before-send.sqs.SendMessage", add_trace)
    assert "MD5OfMessageSystemAttributes" not in sent
    (message,) = receive(sqs, queue, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": TRACE}


def test_words_for_invalid_attributes(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()

    def refusal(value: str) -> tuple[str, str]:
        attributes = {"Details": {"DataType": "String", "StringValue": value}}
        return said(sqs.send_message, QueueUrl=queue, MessageBody="m", MessageAttributes=attributes)

    expected = "Message (user) attribute 'Details' must contain a non-empty value of type 'String'."
    assert refusal("") == ("InvalidParameterValue", expected)
    assert refusal("bell \x08")[0] == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("", {"DataType": "String", "StringValue": "v"},
            "The request must contain non-empty message (user) attribute names."),
        ("a", {"DataType": "", "StringValue": "v"},
            "The message attribute 'a' must contain non-empty message attribute type."),
        ("a", {"DataType": "Text", "StringValue": "v"}, "The type of message (user) attribute 'a' is invalid. "
            "You must use only the following supported type prefixes: Binary, Number, String."),
        ("a", {"DataType": "Number", "StringValue": "1e127"},
            "Number attribute value 1e127 should be in range (-10**128..10**126)"),
    ],
)  # fmt: skip
def test_words_for_names_and_types_of_attributes(
    sqs: Any, queue: str, name: str, value: dict[str, str], sentence: str
) -> None:
    how = {"QueueUrl": queue, "MessageBody": "m", "MessageAttributes": {name: value}}
    assert said(sqs.send_message, **how) == ("InvalidParameterValue", sentence)


def test_an_empty_body_in_a_batch_is_an_empty_value(sqs: Any, queue: str) -> None:
    entries = [{"Id": "full", "MessageBody": "m"}, {"Id": "empty", "MessageBody": ""}]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["full"]
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("empty", "EmptyValue", True)
    ]


# Attributes of queues


@pytest.mark.parametrize(
    ("attribute", "value", "code", "sentence"),
    [
        ("DelaySeconds", "901", "InvalidAttributeValue", "Invalid value for the parameter DelaySeconds."),
        ("VisibilityTimeout", "-1", "InvalidAttributeValue", "Invalid value for the parameter VisibilityTimeout."),
        ("RedrivePolicy", "[]", "InvalidAttributeValue",
            "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."),
        ("RedrivePolicy", "{}", "InvalidParameterValue", "Value {} for parameter RedrivePolicy is invalid. "
            "Reason: Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        ("RedriveAllowPolicy", "{}", "InvalidAttributeValue", "Invalid value for the parameter RedriveAllowPolicy. "
            "Reason: Amazon SQS can't create the redrive allow policy, as it\u2019s in an unsupported format."),
        ("RedriveAllowPolicy", '{"redrivePermission":"byQueue"}', "InvalidParameterValue",
            'Value {"redrivePermission":"byQueue"} for parameter RedriveAllowPolicy is invalid. '
            "Reason: Amazon SQS can't create the redrive allow policy. When you specify the byQueue permission type, "
            "you must also specify one or more sourceQueueArns values."),
    ],
)  # fmt: skip
def test_words_for_values_of_queue_attributes(
    sqs: Any, queue: str, attribute: str, value: str, code: str, sentence: str
) -> None:
    assert said(sqs.set_queue_attributes, QueueUrl=queue, Attributes={attribute: value}) == (code, sentence)


def test_encryption_attributes_go_together(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()

    def shown() -> dict[str, str]:
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        return {name: value for name, value in found.items() if name.startswith(("Kms", "Sqs"))}

    assert shown() == {"SqsManagedSseEnabled": "false"}, "which AWS shows as true: here it is what holds"
    key = {"KmsMasterKeyId": "alias/orders", "KmsDataKeyReusePeriodSeconds": "6000"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=key)
    assert shown() == {**key, "SqsManagedSseEnabled": "false"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300"})
    assert shown() == {"SqsManagedSseEnabled": "false"}


def test_attributes_of_fifo_queues_on_a_standard_one(sqs: Any, fresh_name: FreshName) -> None:
    name = fresh_name("standard")
    for attribute_name, value in (("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue")):
        expected = f"You can specify the {attribute_name} only when FifoQueue is set to true."
        asked = {"QueueName": name, "Attributes": {attribute_name: value}}
        assert said(sqs.create_queue, **asked) == ("InvalidAttributeName", expected)
    with pytest.raises(ClientError, match=r"Unknown Attribute ContentBasedDeduplication\."):
        sqs.create_queue(QueueName=name, Attributes={"ContentBasedDeduplication": "true"})


def test_a_policy_of_permissions_has_the_version_of_the_service(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()
    sqs.add_permission(QueueUrl=queue, Label="label", AWSAccountIds=["111111111111"], Actions=["ReceiveMessage"])
    assert json.loads(attribute(sqs, queue, "Policy"))["Version"] == "2008-10-17"
    with pytest.raises(ClientError, match=r"Value other for parameter Label is invalid\. Reason: can't find label\."):
        sqs.remove_permission(QueueUrl=queue, Label="other")


# The Query protocol


def ask(url: str, accept: str = "*/*", **parameters: str) -> tuple[int, str]:
    query = f"{url}?{urlencode(parameters)}" if parameters else url
    request = urllib.request.Request(query, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_query_protocol_answers_in_json_if_asked(sqs: Any, endpoint: str, make_queue: MakeQueue) -> None:
    queue = make_queue()
    send(sqs, queue, 'a "quoted"\rbody')
    asked = {"Action": "ReceiveMessage", "QueueUrl": queue, "Version": "2012-11-05"}
    status, text = ask(endpoint, "application/json", **asked)
    found = json.loads(text)["ReceiveMessageResponse"]
    assert status == 200
    assert found["ReceiveMessageResult"]["messages"][0]["Body"] == 'a "quoted"\rbody'
    assert found["ResponseMetadata"]["RequestId"]
    status, text = ask(endpoint, "application/json", **{**asked, "QueueUrl": f"{queue}-none"})
    assert status == 400
    assert json.loads(text)["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_answers_of_a_queue_address(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue()
    assert "<ReceiveMessageResult/>" in ask(queue, Action="ReceiveMessage")[1]
    for action in ("CreateQueue", "ListQueues"):
        status, text = ask(queue, Action=action, QueueName="other")
        assert status == 400
        assert f"<Code>InvalidAction</Code><Message>The action {action} is not valid for this endpoint." in text
    for accept in ("*/*", "application/json"):
        status, text = ask(queue, accept)
        assert (status, text.strip()) == (404, "<UnknownOperationException/>")
    missing = ask(f"{queue}-none", Action="ReceiveMessage")[1]
    assert "<Message>The specified queue does not exist for this wsdl version.</Message>" in missing


def test_requests_as_the_reference_of_the_service_shows_them(sqs: Any, endpoint: str, fresh_name: FreshName) -> None:
    """The Query examples of AWS's API reference: a slash after the queue, and one attribute or tag without a number."""
    name = fresh_name("reference")
    made = {"Attribute.1.Name": "VisibilityTimeout", "Attribute.1.Value": "40", "Tag.Key": "Type", "Tag.Value": "Test"}
    assert ask(endpoint, Action="CreateQueue", QueueName=name, **made)[0] == 200
    queue = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"Type": "Test"}
    path = f"{endpoint}/123456789012/{name}/"
    changed = {"Attribute.Name": "VisibilityTimeout", "Attribute.Value": "35"}
    assert ask(path, Action="SetQueueAttributes", **changed)[0] == 200
    assert ask(path, Action="TagQueue", **{"Tag.Key": "Owner", "Tag.Value": "me"})[0] == 200
    assert "<Value>35</Value>" in ask(path, Action="GetQueueAttributes", **{"AttributeName.1": "All"})[1]
    sent = {"MessageAttribute.Name": "a", "MessageAttribute.Value.StringValue": "v"}
    sent["MessageAttribute.Value.DataType"] = "String"
    assert ask(path, Action="SendMessage", MessageBody="This is a test message", **sent)[0] == 200
    asked = {"AttributeName": "All", "MaxNumberOfMessages": "5", "VisibilityTimeout": "15"}
    assert "<Body>This is a test message</Body>" in ask(path, Action="ReceiveMessage", **asked)[1]
    sqs.send_message(QueueUrl=f"https://sqs.us-east-1.amazonaws.com/177715257436/{name}/", MessageBody="JSON")
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"Type": "Test", "Owner": "me"}


# Settings of the node


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory, hall: Node | None) -> Iterator[Node]:
    """A node with other limits than those of the service."""
    if hall is None:
        leave_out("LONGHALL_TEST_SQS names a server whose settings are not ours")
    limits = {"delay_ms_max": "2h", "wait_ms_max": "30s", "message_bytes_max": "2MiB", "fifo_sends_max": "5"}
    limits |= {"retention_ms_min": "2s", "purge_apart_ms": "0", "name_reuse_ms": "0"}
    options = [word for name, value in limits.items() for word in ("--set", f"sqs_limits.{name}={value}")]
    with served(tmp_path_factory.mktemp("widened") / "data", options=options) as running:
        yield running


@pytest.fixture
def wide(widened: Node) -> Any:
    config = Config(retries={"total_max_attempts": 1}, read_timeout=60)
    return boto3.client("sqs", endpoint_url=endpoint_of(widened), region_name=REGION, config=config, **CREDENTIALS)


def test_an_owner_widens_the_limits(wide: Any, fresh_name: FreshName) -> None:
    queue = wide.create_queue(QueueName=fresh_name("wide"), Attributes={"DelaySeconds": "7200"})["QueueUrl"]
    assert attribute(wide, queue, "MaximumMessageSize") == str(2 << 20)
    send(wide, queue, "x" * (3 << 19), DelaySeconds=0)
    (message,) = receive(wide, queue, WaitTimeSeconds=30)
    assert len(message["Body"]) == 3 << 19
    with pytest.raises(ClientError, match=r"DelaySeconds must be >= 0 and <= 7200\."):
        send(wide, queue, "later", DelaySeconds=7201)


def test_an_owner_allows_a_shorter_retention(wide: Any, fresh_name: FreshName) -> None:
    """The old message is in the segment of a new one, so that the cleaner leaves it; a receive does not give it."""
    queue = wide.create_queue(QueueName=fresh_name("brief"), Attributes={"MessageRetentionPeriod": "2"})["QueueUrl"]
    send(wide, queue, "old")
    time.sleep(2.1)
    send(wide, queue, "new")
    assert bodies(receive(wide, queue, MaxNumberOfMessages=10)) == ["new"]
    with pytest.raises(ClientError, match="MessageRetentionPeriod"):
        wide.set_queue_attributes(QueueUrl=queue, Attributes={"MessageRetentionPeriod": "1"})


def test_an_owner_lets_queues_be_purged_and_made_again_at_once(wide: Any, fresh_name: FreshName) -> None:
    """As suites want it that purge before each test, or delete a queue and create it again."""
    name = fresh_name("again")
    for _ in range(3):
        queue = wide.create_queue(QueueName=name)["QueueUrl"]
        for _ in range(3):
            send(wide, queue, "x")
            wide.purge_queue(QueueUrl=queue)
            assert "Messages" not in wide.receive_message(QueueUrl=queue)
        wide.delete_queue(QueueUrl=queue)


def test_the_throughput_limit_is_of_the_queue_or_of_each_group(wide: Any, fresh_name: FreshName) -> None:
    def taken(queue: str) -> int:
        """How many of 40 sends to 20 groups are taken; the others are throttled."""
        count = 0
        for number in range(40):
            try:
                send(wide, queue, str(number), MessageGroupId=str(number % 20), MessageDeduplicationId=str(number))
                count += 1
            except ClientError as error:
                if error.response["Error"]["Code"] != "RequestThrottled":
                    raise
        return count

    name = fresh_name("limited") + ".fifo"
    whole = wide.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
    scope = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    by_group = wide.create_queue(QueueName="by-group-" + name, Attributes={"FifoQueue": "true", **scope})["QueueUrl"]
    assert taken(whole) < 40
    assert taken(by_group) == 40


@pytest.mark.slow
def test_two_installations_never_issue_the_same_ids_and_a_restart_keeps_them(tmp_path: Path) -> None:
    ids: list[set[str]] = []
    for home in ("one", "two"):
        with served(tmp_path / home) as node:
            sqs = boto3.client("sqs", endpoint_url=endpoint_of(node), region_name=REGION, **CREDENTIALS)
            queue = sqs.create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
            sent = [one["MessageId"] for one in send(sqs, queue, "a", "b", "c")]
            node.stop()
            node.start()
            sqs = boto3.client("sqs", endpoint_url=endpoint_of(node), region_name=REGION, **CREDENTIALS)
            queue = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
            found = receive(sqs, queue, 3, VisibilityTimeout=30)
            assert {one["MessageId"] for one in found} == set(sent)
            ids.append(set(sent))
    assert not ids[0] & ids[1]
