"""Making, finding, changing and listing queues with boto3, in both protocols."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from longhall.queues.settings import DeadLetters
from tests.doors.sqs.fake_queues import NOW_MS
from tests.doors.sqs.refusing import refused, why
from tests.doors.sqs.running import Running

ARN = "arn:aws:sqs:us-east-1:000000000000:"


def make(sqs: Any, name: str = "orders", **attributes: str) -> str:
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def read(sqs: Any, url: str, *names: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names)).get("Attributes", {})
    return found


def test_a_queue_is_made_found_and_deleted(sqs: Any, door: Running) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert url == f"{door.url}/000000000000/orders"
    assert sqs.get_queue_url(QueueName="orders")["QueueUrl"] == url
    assert sqs.get_queue_url(QueueName="orders", QueueOwnerAWSAccountId="123456789012")["QueueUrl"] == url
    sqs.delete_queue(QueueUrl=url)
    absent = ("AWS.SimpleQueueService.NonExistentQueue", 400, "QueueDoesNotExist")
    assert refused(sqs.get_queue_url, QueueName="orders") == absent
    assert refused(sqs.delete_queue, QueueUrl=url) == absent
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x") == absent


def test_the_service_has_defaults_of_its_own(sqs: Any) -> None:
    assert read(sqs, make(sqs), "All") == {
        "VisibilityTimeout": "30",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "MessageRetentionPeriod": "345600",
        "MaximumMessageSize": "1048576",
        "SqsManagedSseEnabled": "false",
        "QueueArn": ARN + "orders",
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "3",
        "CreatedTimestamp": str(NOW_MS // 1000),
        "LastModifiedTimestamp": str(NOW_MS // 1000),
    }


def test_a_fifo_queue_has_more_attributes(sqs: Any, door: Running) -> None:
    url = make(sqs, "orders.fifo", FifoQueue="true")
    found = read(sqs, url, "All")
    assert found["FifoQueue"] == "true"
    assert found["ContentBasedDeduplication"] == "false"
    assert found["DeduplicationScope"] == "queue"
    assert found["FifoThroughputLimit"] == "perQueue"
    attributes = {
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    assert read(sqs, url, *attributes) == attributes
    settings = door.queues.queues["orders.fifo"].view.settings
    assert (settings.fifo, settings.deduplication, settings.deduplication_scope) == (True, "content", "group")


def test_every_attribute_that_is_set_is_read_back(sqs: Any, door: Running) -> None:
    make(sqs, "dead")
    attributes = {
        "VisibilityTimeout": "43200",
        "DelaySeconds": "900",
        "ReceiveMessageWaitTimeSeconds": "20",
        "MessageRetentionPeriod": "60",
        "MaximumMessageSize": "1024",
        "Policy": '{"Version":"2012-10-17","Statement":[]}',
        "RedrivePolicy": f'{{"deadLetterTargetArn":"{ARN}dead","maxReceiveCount":3}}',
        "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
        "KmsMasterKeyId": "alias/key",
        "KmsDataKeyReusePeriodSeconds": "600",
    }
    url = make(sqs, **attributes)
    assert read(sqs, url, *attributes) == attributes
    settings = door.queues.queues["orders"].view.settings
    assert (settings.lease_ms, settings.delay_ms, settings.wait_ms) == (43_200_000, 900_000, 20_000)
    assert (settings.retention_ms, settings.message_bytes_max) == (60_000, 1024)
    assert (settings.sealed, settings.seal_reuse_ms) == ("alias/key", 600_000)
    assert settings.dead_letters == DeadLetters(queue="dead", attempts_max=3, on_delete=False)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"SqsManagedSseEnabled": "true"})
    assert read(sqs, url, "SqsManagedSseEnabled", "KmsMasterKeyId") == {"SqsManagedSseEnabled": "true"}
    assert door.queues.queues["orders"].view.settings.sealed == "managed"
    taken = {"Policy": "", "RedrivePolicy": "", "RedriveAllowPolicy": "", "KmsDataKeyReusePeriodSeconds": ""}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=taken)
    assert read(sqs, url, *taken) == {}
    assert read(sqs, url, "LastModifiedTimestamp") == {"LastModifiedTimestamp": str(NOW_MS // 1000 + 5)}


def test_only_what_is_asked_for_is_answered(sqs: Any) -> None:
    url = make(sqs)
    assert read(sqs, url) == {}
    assert read(sqs, url, "QueueArn", "Policy", "FifoQueue") == {"QueueArn": ARN + "orders"}
    asked = {"QueueUrl": url, "AttributeNames": ["Colour"]}
    assert refused(sqs.get_queue_attributes, **asked) == ("InvalidAttributeName", 400, "InvalidAttributeName")


def test_making_a_queue_again_is_fine_as_long_as_it_is_the_same(sqs: Any) -> None:
    url = make(sqs, VisibilityTimeout="5")
    assert make(sqs) == url
    assert make(sqs, VisibilityTimeout="5", DelaySeconds="0") == url
    again = {"QueueName": "orders", "Attributes": {"VisibilityTimeout": "6"}}
    assert refused(sqs.create_queue, **again) == ("QueueAlreadyExists", 400, "QueueNameExists")
    assert read(sqs, url, "VisibilityTimeout") == {"VisibilityTimeout": "5"}


@pytest.mark.parametrize("name", ["x" * 80, "a-b_C9"])
def test_names_that_may_be(sqs: Any, name: str) -> None:
    assert make(sqs, name).endswith("/" + name)


@pytest.mark.parametrize("name", ["x" * 81, "a b", "a.b", "ä", "a/b", "orders.fifo", ".fifo"])
def test_names_that_may_not_be(sqs: Any, name: str) -> None:
    assert why(sqs.create_queue, QueueName=name) == "InvalidParameterValue"


def test_names_of_fifo_queues(sqs: Any, door: Running) -> None:
    fifo = {"FifoQueue": "true"}
    make(sqs, "x" * 75 + ".fifo", **fifo)
    for name in ("orders", ".fifo", "x" * 76 + ".fifo", "a.b.fifo"):
        assert why(sqs.create_queue, QueueName=name, Attributes=fifo) == "InvalidParameterValue"
    assert why(sqs.create_queue, QueueName="") == "InvalidParameterValue"
    assert list(door.queues.queues) == ["x" * 75 + ".fifo"]


BOUNDS = {
    "VisibilityTimeout": (0, 43_200),
    "DelaySeconds": (0, 900),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "MessageRetentionPeriod": (60, 1_209_600),
    "MaximumMessageSize": (1024, 1_048_576),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}


@pytest.mark.parametrize("attribute", BOUNDS)
def test_each_number_has_its_bounds(sqs: Any, attribute: str) -> None:
    url = make(sqs, KmsMasterKeyId="alias/orders")
    least, most = BOUNDS[attribute]
    for good in (least, most):
        sqs.set_queue_attributes(QueueUrl=url, Attributes={attribute: str(good)})
        assert read(sqs, url, attribute) == {attribute: str(good)}
    for bad in (least - 1, most + 1, "", "ten", "1.5", "9" * 30, " 70"):
        if bad == "" and attribute.startswith("Kms"):
            continue  # That takes it away.
        asked = {"QueueUrl": url, "Attributes": {attribute: str(bad)}}
        expected = ("InvalidAttributeValue", 400, "InvalidAttributeValue")
        assert refused(sqs.set_queue_attributes, **asked) == expected
        assert why(sqs.create_queue, QueueName="other", Attributes={attribute: str(bad)}) == "InvalidAttributeValue"
    assert read(sqs, url, attribute) == {attribute: str(most)}


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"Colour": "red"}, "InvalidAttributeName"),
        ({"QueueArn": "x"}, "InvalidAttributeName"),
        ({"ApproximateNumberOfMessages": "1"}, "InvalidAttributeName"),
        ({"All": "1"}, "InvalidAttributeName"),
        ({"FifoQueue": "false"}, "InvalidAttributeName"),
        ({"ContentBasedDeduplication": "true"}, "InvalidAttributeName"),
        ({"DeduplicationScope": "queue"}, "InvalidAttributeName"),
        ({"FifoThroughputLimit": "perQueue"}, "InvalidAttributeName"),
        ({"Policy": "{"}, "InvalidAttributeValue"),
        ({"Policy": "[]"}, "InvalidAttributeValue"),
        ({"SqsManagedSseEnabled": "perhaps"}, "InvalidAttributeValue"),
        ({"SqsManagedSseEnabled": "true", "KmsMasterKeyId": "k"}, "InvalidAttributeName"),
        ({"KmsMasterKeyId": "k" * 2049}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": "{"}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission":"some"}'}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": "{}"}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission":"byQueue"}'}, "InvalidParameterValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission":"denyAll","sourceQueueArns":["a"]}'}, "InvalidParameterValue"),
        (
            {"RedriveAllowPolicy": json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "x"] * 11})},
            "InvalidParameterValue",
        ),
    ],
)
def test_attributes_that_may_not_be(sqs: Any, attributes: dict[str, str], code: str) -> None:
    url = make(sqs)
    before = read(sqs, url, "All")
    assert why(sqs.set_queue_attributes, QueueUrl=url, Attributes=attributes) == code
    assert why(sqs.set_queue_attributes, QueueUrl=url, Attributes={"DelaySeconds": "9", **attributes}) == code
    assert read(sqs, url, "All") == before


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"FifoQueue": "false"}, "InvalidAttributeValue"),
        ({"DeduplicationScope": "world"}, "InvalidAttributeValue"),
        ({"FifoThroughputLimit": "perWorld"}, "InvalidAttributeValue"),
        ({"FifoThroughputLimit": "perMessageGroupId"}, "InvalidAttributeValue"),
        ({"ContentBasedDeduplication": "yes"}, "InvalidAttributeValue"),
    ],
)
def test_attributes_that_may_not_be_on_a_fifo_queue(sqs: Any, attributes: dict[str, str], code: str) -> None:
    url = make(sqs, "orders.fifo", FifoQueue="true")
    assert why(sqs.set_queue_attributes, QueueUrl=url, Attributes=attributes) == code


def test_no_attributes_at_all_are_missed(sqs: Any) -> None:
    assert why(sqs.set_queue_attributes, QueueUrl=make(sqs), Attributes={}) == "MissingParameter"


def redrive(target: str, count: object = 3) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": count})}


def test_where_dead_letters_may_go(sqs: Any) -> None:
    url = make(sqs)
    make(sqs, "dead")
    make(sqs, "dead.fifo", FifoQueue="true")
    make(sqs, "closed", RedriveAllowPolicy='{"redrivePermission":"denyAll"}')
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "orders"]}
    make(sqs, "known", RedriveAllowPolicy=json.dumps(allowed))
    allowed["sourceQueueArns"] = [ARN + "others"]
    make(sqs, "stranger", RedriveAllowPolicy=json.dumps(allowed))
    for target, count in (("dead", 1), ("dead", 1000), ("known", "5")):
        sqs.set_queue_attributes(QueueUrl=url, Attributes=redrive(ARN + target, count))
        found = json.loads(read(sqs, url, "RedrivePolicy")["RedrivePolicy"])
        assert found == {"deadLetterTargetArn": ARN + target, "maxReceiveCount": int(count)}
    wrong: list[tuple[str, object]] = [("dead", count) for count in (0, 1001, "many", None)]
    wrong += [(target, 3) for target in ("absent", "dead.fifo", "closed", "stranger")]
    for target, bad in wrong:
        asked = {"QueueUrl": url, "Attributes": redrive(ARN + target, bad)}
        assert why(sqs.set_queue_attributes, **asked) == "InvalidParameterValue", target
    deep = '{"a":' * 20_000
    for text in ("{", "[]", "3", '"x"', deep):
        asked = {"QueueUrl": url, "Attributes": {"RedrivePolicy": text}}
        assert why(sqs.set_queue_attributes, **asked) == "InvalidAttributeValue", text
    for text in ("{}", '{"deadLetterTargetArn":"dead","maxReceiveCount":3}', '{"maxReceiveCount":3}'):
        asked = {"QueueUrl": url, "Attributes": {"RedrivePolicy": text}}
        assert why(sqs.set_queue_attributes, **asked) == "InvalidParameterValue", text
    for text in ("{", deep, '{"redrivePermission":"nobody"}'):
        asked = {"QueueUrl": url, "Attributes": {"RedriveAllowPolicy": text}}
        assert why(sqs.set_queue_attributes, **asked) == "InvalidAttributeValue", text


def test_lists_come_in_pages(sqs: Any, door: Running) -> None:
    assert "QueueUrls" not in sqs.list_queues()
    for number in range(5):
        make(sqs, f"a-{number}")
    make(sqs, "b")
    urls = [f"{door.url}/000000000000/a-{number}" for number in range(5)]
    answer = sqs.list_queues(QueueNamePrefix="a-")
    assert (answer["QueueUrls"], answer.get("NextToken")) == (urls, None)
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix="a-", PaginationConfig={"PageSize": 2})
    assert [page["QueueUrls"] for page in pages] == [urls[:2], urls[2:4], urls[4:]]
    for bad in (0, 1001, -1):
        assert why(sqs.list_queues, MaxResults=bad) == "InvalidParameterValue"
    for token in ("?", "ä", "YQ==="):
        assert why(sqs.list_queues, MaxResults=2, NextToken=token) == "InvalidParameterValue"
    assert why(sqs.list_queues, NextToken="YQ==") == "InvalidParameterValue"


def test_sources_of_dead_letters_come_in_pages(sqs: Any, door: Running) -> None:
    dead = make(sqs, "dead")
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead).get("queueUrls", []) == []
    for number in range(3):
        make(sqs, f"source-{number}", **redrive(ARN + "dead"))
    urls = [f"{door.url}/000000000000/source-{number}" for number in range(3)]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == urls
    pager = sqs.get_paginator("list_dead_letter_source_queues")
    pages = pager.paginate(QueueUrl=dead, PaginationConfig={"PageSize": 2})
    assert [page["queueUrls"] for page in pages] == [urls[:2], urls[2:]]
    assert why(sqs.list_dead_letter_source_queues, QueueUrl=dead, MaxResults=1001) == "InvalidParameterValue"


def test_tags(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders", tags={"team": "a", "empty": ""})["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a", "empty": ""}
    sqs.tag_queue(QueueUrl=url, Tags={"team": "b", "cost": "1 <&>"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b", "empty": "", "cost": "1 <&>"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["empty", "absent", "cost"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    sqs.tag_queue(QueueUrl=url, Tags={f"{n}": "v" for n in range(50)})
    wrong = [{"51": "x"}, {"k" * 129: "v"}, {"k": "v" * 257}, {"aws:k": "v"}, {"": "v"}]
    for tags in wrong:
        assert why(sqs.tag_queue, QueueUrl=url, Tags=tags) == "InvalidParameterValue", tags
    assert why(sqs.create_queue, QueueName="x", tags={"k" * 129: "v"}) == "InvalidParameterValue"
    assert len(sqs.list_queue_tags(QueueUrl=url)["Tags"]) == 50


def test_permissions_are_statements_of_the_policy(sqs: Any) -> None:
    url = make(sqs)
    asked = {"QueueUrl": url, "Label": "first", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}
    sqs.add_permission(**asked)
    sqs.add_permission(**{**asked, "Label": "second", "Actions": ["*", "ReceiveMessage"]})
    policy = json.loads(read(sqs, url, "Policy")["Policy"])
    first, second = policy["Statement"]
    assert first == {
        "Sid": "first",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
        "Action": "SQS:SendMessage",
        "Resource": ARN + "orders",
    }
    assert second["Action"] == ["SQS:*", "SQS:ReceiveMessage"]
    assert why(sqs.add_permission, **asked) == "InvalidParameterValue"
    assert why(sqs.add_permission, **{**asked, "Label": "a b"}) == "InvalidParameterValue"
    assert why(sqs.add_permission, **{**asked, "Label": "x", "Actions": ["Fly"]}) == "InvalidParameterValue"
    assert why(sqs.add_permission, **{**asked, "Label": "x", "AWSAccountIds": ["1"]}) == "InvalidParameterValue"
    assert why(sqs.add_permission, **{**asked, "Label": "x", "AWSAccountIds": []}) == "InvalidParameterValue"
    eight = ["SendMessage"] * 8
    assert refused(sqs.add_permission, **{**asked, "Label": "x", "Actions": eight}) == ("OverLimit", 403, "OverLimit")
    for number in range(18):
        sqs.add_permission(**{**asked, "Label": f"more-{number}"})
    assert why(sqs.add_permission, **{**asked, "Label": "x"}) == "OverLimit"
    sqs.remove_permission(QueueUrl=url, Label="first")
    assert why(sqs.remove_permission, QueueUrl=url, Label="first") == "InvalidParameterValue"


def test_the_last_permission_takes_the_policy_with_it(sqs: Any) -> None:
    url = make(sqs)
    sqs.add_permission(QueueUrl=url, Label="only", AWSAccountIds=["123456789012"], Actions=["SendMessage"])
    sqs.remove_permission(QueueUrl=url, Label="only")
    assert read(sqs, url, "Policy") == {}


def test_a_purge_has_to_wait_for_the_one_before(sqs: Any) -> None:
    url = make(sqs)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.purge_queue(QueueUrl=url)
    assert read(sqs, url, "ApproximateNumberOfMessages") == {"ApproximateNumberOfMessages": "0"}
    expected = ("AWS.SimpleQueueService.PurgeQueueInProgress", 403, "PurgeQueueInProgress")
    assert refused(sqs.purge_queue, QueueUrl=url) == expected


def test_only_the_name_in_a_url_decides(sqs: Any) -> None:
    make(sqs)
    for url in (
        "https://sqs.eu-west-1.amazonaws.com/123456789012/orders",
        "http://elsewhere/queue/orders",
        "orders",
        "/1/orders/",
    ):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    for url in ("http://host/1/", "http://host/1/a b", "ä", ""):
        assert refused(sqs.purge_queue, QueueUrl=url) == ("InvalidAddress", 404, "InvalidAddress"), url


def test_redrives(sqs: Any) -> None:
    make(sqs, "dead")
    make(sqs, "orders", **redrive(ARN + "dead"))
    make(sqs, "other.fifo", FifoQueue="true")
    handle = sqs.start_message_move_task(SourceArn=ARN + "dead", MaxNumberOfMessagesPerSecond=500)["TaskHandle"]
    expected = ("InvalidParameterValue", 400, "ClientError")
    assert refused(sqs.start_message_move_task, SourceArn=ARN + "dead") == expected
    (task,) = sqs.list_message_move_tasks(SourceArn=ARN + "dead")["Results"]
    assert task.pop("StartedTimestamp") > NOW_MS
    assert task == {
        "TaskHandle": handle,
        "Status": "RUNNING",
        "SourceArn": ARN + "dead",
        "MaxNumberOfMessagesPerSecond": 500,
        "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": 7,
    }
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] == 2
    sqs.start_message_move_task(SourceArn=ARN + "dead", DestinationArn=ARN + "orders")
    newest, oldest = sqs.list_message_move_tasks(SourceArn=ARN + "dead", MaxResults=10)["Results"]
    assert newest["DestinationArn"] == ARN + "orders"
    assert (oldest["Status"], "TaskHandle" in oldest) == ("CANCELLED", False)
    assert len(sqs.list_message_move_tasks(SourceArn=ARN + "dead")["Results"]) == 1


def test_redrives_that_cannot_be(sqs: Any, door: Running) -> None:
    make(sqs, "dead")
    make(sqs, "orders", **redrive(ARN + "dead"))
    make(sqs, "other.fifo", FifoQueue="true")
    absent = ("ResourceNotFoundException", 404, "ResourceNotFoundException")
    start = sqs.start_message_move_task
    assert refused(start, SourceArn=ARN + "absent") == absent
    assert refused(start, SourceArn=ARN + "dead", DestinationArn=ARN + "absent") == absent
    assert refused(sqs.list_message_move_tasks, SourceArn=ARN + "absent") == absent
    assert why(start, SourceArn=ARN + "orders") == "InvalidParameterValue"
    assert why(start, SourceArn="dead") == "InvalidParameterValue"
    assert why(start, SourceArn=ARN + "dead", DestinationArn=ARN + "dead") == "InvalidParameterValue"
    assert why(start, SourceArn=ARN + "dead", DestinationArn=ARN + "other.fifo") == "InvalidParameterValue"
    for rate in (0, 501):
        assert why(start, SourceArn=ARN + "dead", MaxNumberOfMessagesPerSecond=rate) == "InvalidParameterValue"
    for count in (0, 11):
        assert why(sqs.list_message_move_tasks, SourceArn=ARN + "dead", MaxResults=count) == "InvalidParameterValue"
    for handle in ("?", base64.b64encode(b'{"a":' * 20_000).decode()):
        assert why(sqs.cancel_message_move_task, TaskHandle=handle) == "InvalidParameterValue"
    handle = start(SourceArn=ARN + "dead")["TaskHandle"]
    door.queues.tasks.clear()
    assert refused(sqs.cancel_message_move_task, TaskHandle=handle) == absent
