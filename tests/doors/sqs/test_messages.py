"""Sending, receiving, deleting and keeping messages with boto3, in both protocols."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery
from tests.doors.sqs.fake_queues import NOW_MS
from tests.doors.sqs.refusing import refused, said, why
from tests.doors.sqs.running import Running

TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}


@pytest.fixture
def url(sqs: Any) -> str:
    made: str = sqs.create_queue(QueueName="orders")["QueueUrl"]
    return made


@pytest.fixture
def fifo(sqs: Any) -> str:
    made: str = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    return made


def text(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


def received(sqs: Any, url: str, **arguments: Any) -> Any:
    (message,) = sqs.receive_message(QueueUrl=url, **arguments)["Messages"]
    return message


@pytest.mark.parametrize("body", ["hello", " ", "a\r\n\tb", "<&>\"'", "é€😀\ud7ff\ue000\ufffd\x7f", "x" * 1_048_576])
def test_a_body_comes_out_as_it_went_in(sqs: Any, url: str, body: str) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody=body)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    assert "SequenceNumber" not in sent
    message = received(sqs, url)
    assert message["Body"] == body
    assert (message["MessageId"], message["MD5OfBody"]) == (sent["MessageId"], sent["MD5OfMessageBody"])
    assert "Attributes" not in message
    assert "MessageAttributes" not in message
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


@pytest.mark.parametrize("body", ["\x00", "a\x0b", "\x1f", "\ufffe", "x\uffff"])
def test_characters_that_may_not_be(sqs: Any, url: str, door: Running, body: str) -> None:
    expected = ("InvalidMessageContents", 400, "InvalidMessageContents")
    assert refused(sqs.send_message, QueueUrl=url, MessageBody=body) == expected
    assert not door.queues.queues["orders"].sent


def test_an_empty_body_is_none(sqs: Any, url: str) -> None:
    assert why(sqs.send_message, QueueUrl=url, MessageBody="") == "MissingParameter"


def test_a_message_has_its_size(sqs: Any, url: str, door: Running) -> None:
    attributes = {"ab": text("cd")}  # Two, two, and six for the word String.
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MaximumMessageSize": "2048"})
    sqs.send_message(QueueUrl=url, MessageBody="x" * 2048)
    sqs.send_message(QueueUrl=url, MessageBody="é" * 1024, MessageSystemAttributes=TRACE)
    sqs.send_message(QueueUrl=url, MessageBody="x" * 2038, MessageAttributes=attributes)
    assert why(sqs.send_message, QueueUrl=url, MessageBody="x" * 2049) == "InvalidParameterValue"
    assert why(sqs.send_message, QueueUrl=url, MessageBody="é" * 1024 + "x") == "InvalidParameterValue"
    asked = {"QueueUrl": url, "MessageBody": "x" * 2039, "MessageAttributes": attributes}
    assert why(sqs.send_message, **asked) == "InvalidParameterValue"
    assert len(door.queues.queues["orders"].sent) == 3


def test_a_mebibyte_and_no_more(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody='"' * 1_048_576)
    assert why(sqs.send_message, QueueUrl=url, MessageBody="x" * 1_048_577) == "InvalidParameterValue"


def test_attributes_travel_and_are_digested(sqs: Any, url: str) -> None:
    attributes = {
        "colour": text("red"),
        "count": text("-12.5e3", "Number"),
        "price": text("7", "Number.euro"),
        "raw": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff\r\n"},
    }
    asked = {"QueueUrl": url, "MessageBody": "x", "MessageAttributes": attributes, "MessageSystemAttributes": TRACE}
    sent = sqs.send_message(**asked)
    assert len(sent["MD5OfMessageSystemAttributes"]) == 32
    message = received(sqs, url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_the_digest_of_attributes_is_the_one_that_others_compute(sqs: Any, url: str) -> None:
    # By hand: name, type and value each after its length, with 1 for text and 2 for bytes before the value.
    def part(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    encoded = (
        part(b"a") + part(b"Binary") + b"\x02" + part(b"\x00") + part(b"b") + part(b"String") + b"\x01" + part(b"v")
    )
    attributes = {"b": text("v"), "a": {"DataType": "Binary", "BinaryValue": b"\x00"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == hashlib.md5(encoded).hexdigest()


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ([], set()),
        (["All"], {"a.x", "a.y", "b"}),
        ([".*"], {"a.x", "a.y", "b"}),
        (["a.*"], {"a.x", "a.y"}),
        (["b", "c"], {"b"}),
        (["a"], set()),
        (["a.x", "b"], {"a.x", "b"}),
    ],
)
def test_only_attributes_that_are_asked_for_come(sqs: Any, url: str, asked: list[str], names: set[str]) -> None:
    every = {name: text("v") for name in ("a.x", "a.y", "b")}
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=every)
    message = received(sqs, url, MessageAttributeNames=asked)
    assert set(message.get("MessageAttributes", {})) == names
    assert ("MD5OfMessageAttributes" in message) == bool(names)


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({f"a{n}": text("v") for n in range(11)}, "InvalidParameterValue"),
        ({"a b": text("v")}, "InvalidParameterValue"),
        ({"AWS.x": text("v")}, "InvalidParameterValue"),
        ({"amazon.x": text("v")}, "InvalidParameterValue"),
        ({".a": text("v")}, "InvalidParameterValue"),
        ({"a.": text("v")}, "InvalidParameterValue"),
        ({"a..b": text("v")}, "InvalidParameterValue"),
        ({"a" * 257: text("v")}, "InvalidParameterValue"),
        ({"": text("v")}, "InvalidParameterValue"),
        ({"a": text("v", "")}, "InvalidParameterValue"),
        ({"a": text("v", "Text")}, "InvalidParameterValue"),
        ({"a": text("v", "Stringent")}, "InvalidParameterValue"),
        ({"a": text("v", "String.")}, "InvalidParameterValue"),
        ({"a": text("v", "String." + "x" * 250)}, "InvalidParameterValue"),
        ({"a": text("")}, "InvalidParameterValue"),
        ({"a": text("many", "Number")}, "InvalidParameterValue"),
        ({"a": text("v", "Binary")}, "InvalidParameterValue"),
        ({"a": {"DataType": "String", "BinaryValue": b"v"}}, "InvalidParameterValue"),
        ({"a": {"DataType": "String"}}, "InvalidParameterValue"),
        ({"a": {"DataType": "Binary"}}, "InvalidParameterValue"),
        ({"a": text("\x01")}, "InvalidParameterValue"),
        ({"a": {"DataType": "String", "StringListValues": ["v"]}}, "AWS.SimpleQueueService.UnsupportedOperation"),
        ({"a": {"DataType": "Binary", "BinaryListValues": [b"v"]}}, "AWS.SimpleQueueService.UnsupportedOperation"),
        ({"a": {"StringValue": "v"}}, "InvalidParameterValue"),
    ],
)
def test_attributes_that_may_not_be(sqs: Any, url: str, door: Running, attributes: dict[str, Any], code: str) -> None:
    assert why(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes=attributes) == code
    assert not door.queues.queues["orders"].sent


def test_attributes_that_just_may_be(sqs: Any, url: str) -> None:
    attributes = {f"{n}-" + "a" * 254: text("v", "String." + "x" * 249) for n in range(10)}
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=attributes)


def test_only_one_system_attribute_can_be_sent(sqs: Any, url: str) -> None:
    for wrong in ({"SenderId": text("me")}, {"AWSTraceHeader": {"DataType": "Binary", "BinaryValue": b"x"}}):
        asked = {"QueueUrl": url, "MessageBody": "x", "MessageSystemAttributes": wrong}
        assert why(sqs.send_message, **asked) == "InvalidParameterValue"


def test_system_attributes_of_a_standard_queue(sqs: Any, url: str) -> None:
    asked = {"QueueUrl": url, "MessageBody": "x", "MessageSystemAttributes": TRACE, "MessageGroupId": "tenant"}
    sqs.send_message(**asked)
    message = received(sqs, url, MessageSystemAttributeNames=["All"])
    assert message["Attributes"] == {
        "SenderId": "000000000000",
        "SentTimestamp": str(NOW_MS),
        "ApproximateReceiveCount": "1",
        "ApproximateFirstReceiveTimestamp": str(NOW_MS + 1),
        "AWSTraceHeader": TRACE["AWSTraceHeader"]["StringValue"],
        "MessageGroupId": "tenant",
    }
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    message = received(sqs, url, AttributeNames=["ApproximateReceiveCount"], MessageSystemAttributeNames=["SenderId"])
    assert message["Attributes"] == {"ApproximateReceiveCount": "2", "SenderId": "000000000000"}
    for names in ("AttributeNames", "MessageSystemAttributeNames"):
        asked = {"QueueUrl": url, names: ["Colour"]}
        assert refused(sqs.receive_message, **asked) == ("InvalidAttributeName", 400, "InvalidAttributeName")


def test_system_attributes_of_a_fifo_queue(sqs: Any, fifo: str) -> None:
    asked = {"QueueUrl": fifo, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sent = sqs.send_message(**asked)
    assert len(sent["SequenceNumber"]) == 20
    assert sqs.send_message(**asked)["MessageId"] == sent["MessageId"]
    attributes = received(sqs, fifo, AttributeNames=["All"])["Attributes"]
    assert attributes["SequenceNumber"] == sent["SequenceNumber"]
    assert (attributes["MessageGroupId"], attributes["MessageDeduplicationId"]) == ("g", "d")


def test_content_is_deduplicated_by_the_hash_of_the_body(sqs: Any, fifo: str) -> None:
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"ContentBasedDeduplication": "true"})
    asked = {"QueueUrl": fifo, "MessageBody": "x", "MessageGroupId": "g"}
    first = sqs.send_message(**asked)
    assert sqs.send_message(**asked, MessageAttributes={"a": text("v")})["MessageId"] == first["MessageId"]
    attributes = received(sqs, fifo, AttributeNames=["MessageDeduplicationId"])["Attributes"]
    assert attributes["MessageDeduplicationId"] == hashlib.sha256(b"x").hexdigest()


def test_what_a_fifo_queue_wants_to_know(sqs: Any, fifo: str, url: str, door: Running) -> None:
    good = {"QueueUrl": fifo, "MessageBody": "x", "MessageGroupId": "g" * 128, "MessageDeduplicationId": "d" * 128}
    sqs.send_message(**good, DelaySeconds=0)
    without_group = {name: value for name, value in good.items() if name != "MessageGroupId"}
    assert why(sqs.send_message, **without_group) == "MissingParameter"
    without_id = {name: value for name, value in good.items() if name != "MessageDeduplicationId"}
    assert why(sqs.send_message, **without_id) == "InvalidParameterValue"
    for wrong in ({"MessageGroupId": "g" * 129}, {"MessageGroupId": "a b"}, {"MessageDeduplicationId": "d" * 129},
                  {"MessageDeduplicationId": ""}, {"DelaySeconds": 1}):  # fmt: skip
        assert why(sqs.send_message, **{**good, **wrong}) == "InvalidParameterValue", wrong
    assert len(door.queues.queues["orders.fifo"].sent) == 1
    asked = {"QueueUrl": url, "MessageBody": "x", "MessageDeduplicationId": "d"}
    assert why(sqs.send_message, **asked) == "InvalidParameterValue"
    assert why(sqs.receive_message, QueueUrl=url, ReceiveRequestAttemptId="a" * 129) == "InvalidParameterValue"
    assert why(sqs.receive_message, QueueUrl=fifo, ReceiveRequestAttemptId="a" * 129) == "InvalidParameterValue"
    sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="a" * 128)
    assert door.queues.queues["orders.fifo"].received[-1][3] == "a" * 128


def test_delays(sqs: Any, url: str, door: Running) -> None:
    for delay_s in (0, 900):
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=delay_s)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert [message.delay_ms for message in door.queues.queues["orders"].sent] == [0, 900_000, -1]
    for wrong in (-1, 901):
        assert why(sqs.send_message, QueueUrl=url, MessageBody="x", DelaySeconds=wrong) == "InvalidParameterValue"


def test_how_receiving_is_asked_for(sqs: Any, url: str, door: Running) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.receive_message(QueueUrl=url)
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=43_200, WaitTimeSeconds=0)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    sqs.receive_message(QueueUrl=url)
    assert door.queues.queues["orders"].received == [
        (1, 0, 30_000, ""),
        (10, 0, 43_200_000, ""),
        (1, 0, 0, ""),
        (1, 0, 7_000, ""),
    ]
    wrongs = {"MaxNumberOfMessages": (0, 11), "VisibilityTimeout": (-1, 43_201), "WaitTimeSeconds": (-1, 21)}
    for name, values in wrongs.items():
        for value in values:
            assert why(sqs.receive_message, QueueUrl=url, **{name: value}) == "InvalidParameterValue"


def test_a_long_poll_is_woken_by_a_send(sqs: Any, url: str, door: Running) -> None:
    import threading

    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)))
    waiting.start()
    door.until(lambda: door.queues.pollers == 1)
    sqs.send_message(QueueUrl=url, MessageBody="at last")
    waiting.join(20)
    assert found[0]["Messages"][0]["Body"] == "at last"


def test_bytes_that_are_no_text_come_in_base64_and_say_so(sqs: Any, url: str, door: Running) -> None:
    for body in (b"\xff\x00", b"control \x01"):
        odd = {"header": ("String", b"\xfe"), "good": ("String", b"v")}
        delivery = Delivery(message_id="m", receipt="r", body=body, attributes=odd, attempts=0)
        door.queues.queues["orders"].waiting.append(delivery)
    for encoded in ("/wA=", "Y29udHJvbCAB"):
        message = received(sqs, url)
        assert message["Body"] == encoded
        assert message["MessageAttributes"] == {"longhall.body-encoding": text("base64")}
        delivery.receipt = ""
    delivery.body = b"x"
    door.queues.queues["orders"].waiting.append(delivery)
    attributes = received(sqs, url, MessageAttributeNames=["All"])["MessageAttributes"]
    assert attributes == {"header": {"DataType": "Binary", "BinaryValue": b"\xfe"}, "good": text("v")}


def test_a_dead_letter_says_where_it_died(sqs: Any, url: str, door: Running) -> None:
    dead = Delivery(message_id="m", receipt="r", body=b"x", dead_letter_source="source", sender="AKIA")
    door.queues.queues["orders"].waiting.append(dead)
    attributes = received(sqs, url, AttributeNames=["All"])["Attributes"]
    assert attributes["DeadLetterQueueSourceArn"] == "arn:aws:sqs:us-east-1:000000000000:source"
    assert attributes["SenderId"] == "AKIA"


def test_deleting_is_forgiving(sqs: Any, url: str, fifo: str, door: Running) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    receipt = received(sqs, url)["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    expected = ("ReceiptHandleIsInvalid", 404, "ReceiptHandleIsInvalid")
    assert refused(sqs.delete_message, QueueUrl=url, ReceiptHandle="nonsense") == expected
    for queue in ("orders", "orders.fifo"):
        door.queues.queues[queue].superseded.add("old")
    sqs.delete_message(QueueUrl=url, ReceiptHandle="old")
    assert why(sqs.delete_message, QueueUrl=fifo, ReceiptHandle="old") == "InvalidParameterValue"


def test_leases_are_changed(sqs: Any, url: str, door: Running) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    receipt = received(sqs, url)["ReceiptHandle"]
    change = sqs.change_message_visibility
    change(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=43_200)
    change(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    assert door.queues.queues["orders"].changed == [(receipt, 43_200_000), (receipt, 0)]
    asked = {"QueueUrl": url, "ReceiptHandle": receipt, "VisibilityTimeout": 5}
    expected = ("AWS.SimpleQueueService.MessageNotInflight", 400, "MessageNotInflight")
    assert refused(change, **asked) == expected
    garbage = {**asked, "ReceiptHandle": "garbage"}
    assert why(change, **garbage) == "ReceiptHandleIsInvalid"
    assert said(change, **garbage) == 'The input receipt handle "garbage" is not a valid receipt handle.'
    door.queues.queues["orders"].superseded.add("old")
    assert why(change, **{**asked, "ReceiptHandle": "old"}) == "InvalidParameterValue"
    door.queues.held_ms = 1000
    total = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
    asked["VisibilityTimeout"] = 43_200
    assert said(change, **asked) == f"Value 43200 for parameter VisibilityTimeout is invalid. Reason: {total}"
    for wrong in (-1, 43_201):
        assert why(change, **{**asked, "VisibilityTimeout": wrong}) == "InvalidParameterValue"
    assert why(change, QueueUrl=url, ReceiptHandle=receipt) == "MissingParameter"


def test_what_the_broker_refuses_is_told_in_the_words_of_the_service(sqs: Any, url: str, door: Running) -> None:
    cases: list[tuple[Exception, tuple[str, int, str]]] = [
        (LonghallError(Code.TOO_MANY_IN_FLIGHT), ("OverLimit", 403, "OverLimit")),
        (LonghallError(Code.OVERLOADED), ("RequestThrottled", 403, "RequestThrottled")),
        (LonghallError(Code.NOT_READY), ("ServiceUnavailable", 503, "ClientError")),
        (RuntimeError("secret"), ("InternalFailure", 500, "ClientError")),
    ]
    for refusal, expected in cases:
        door.queues.refusal = refusal
        assert refused(sqs.receive_message, QueueUrl=url) == expected
    door.queues.refusals_of_sends = [Code.QUEUE_FULL]
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x") == ("OverLimit", 403, "OverLimit")
    door.queues.refusal = RuntimeError("secret")
    assert why(sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["All"]) == "InternalFailure"
