"""Queues: created, found, listed, tagged, permitted, purged, deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.conftest import FreshName, eventually
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import (
    INVALID_ADDRESS,
    INVALID_PARAMETER,
    NO_QUEUE,
    OVER_LIMIT,
    PURGE_IN_PROGRESS,
    QUEUE_DELETED_RECENTLY,
    QUEUE_EXISTS,
    refusal,
)
from tests.clients.sqs.words import attribute, nothing_comes, receive, send


def test_a_queue_is_made_found_and_deleted(sqs: Any, fresh_name: FreshName) -> None:
    name = fresh_name("queue")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    assert url.endswith(f"/{name}")
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    sqs.delete_queue(QueueUrl=url)
    eventually(lambda: url not in sqs.list_queues(QueueNamePrefix=name).get("QueueUrls", []), "the queue is gone")
    assert refusal(sqs.get_queue_url, QueueName=name) == NO_QUEUE


def test_a_name_is_not_given_again_at_once(sqs: Any, fresh_name: FreshName) -> None:
    name = fresh_name("queue")
    sqs.delete_queue(QueueUrl=sqs.create_queue(QueueName=name)["QueueUrl"])
    assert refusal(sqs.create_queue, QueueName=name) == QUEUE_DELETED_RECENTLY


def test_creating_an_existing_queue_is_an_error_only_if_it_differs(sqs: Any, fresh_name: FreshName) -> None:
    name = fresh_name("queue")
    attributes = {"VisibilityTimeout": "45"}
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    assert sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"] == url
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url
    assert refusal(sqs.create_queue, QueueName=name, Attributes={"VisibilityTimeout": "46"}) == QUEUE_EXISTS
    assert attribute(sqs, url, "VisibilityTimeout") == "45"


@pytest.mark.parametrize("name", ["a" * 81, "with space", "dot.ted", "slash/ed", "ünder", "x.fifo"])
def test_invalid_names(sqs: Any, name: str) -> None:
    assert refusal(sqs.create_queue, QueueName=name) == INVALID_PARAMETER


def test_the_longest_name(sqs: Any, fresh_name: FreshName) -> None:
    name = fresh_name("q").ljust(80, "x")
    assert sqs.create_queue(QueueName=name)["QueueUrl"].endswith(name)


@pytest.mark.parametrize(
    ("action", "members"),
    [
        ("add_permission", {"Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}),
        ("change_message_visibility", {"ReceiptHandle": "h", "VisibilityTimeout": 1}),
        (
            "change_message_visibility_batch",
            {"Entries": [{"Id": "1", "ReceiptHandle": "h", "VisibilityTimeout": 1}]},
        ),
        ("delete_message", {"ReceiptHandle": "h"}),
        ("delete_message_batch", {"Entries": [{"Id": "1", "ReceiptHandle": "h"}]}),
        ("delete_queue", {}),
        ("get_queue_attributes", {"AttributeNames": ["All"]}),
        ("list_dead_letter_source_queues", {}),
        ("list_queue_tags", {}),
        ("purge_queue", {}),
        ("receive_message", {}),
        ("remove_permission", {"Label": "l"}),
        ("send_message", {"MessageBody": "b"}),
        ("send_message_batch", {"Entries": [{"Id": "1", "MessageBody": "b"}]}),
        ("set_queue_attributes", {"Attributes": {"DelaySeconds": "1"}}),
        ("tag_queue", {"Tags": {"a": "b"}}),
        ("untag_queue", {"TagKeys": ["a"]}),
    ],
)
def test_every_action_on_a_missing_queue(
    sqs: Any, queue: str, fresh_name: FreshName, action: str, members: dict[str, Any]
) -> None:
    url = queue.rsplit("/", 1)[0] + "/" + fresh_name("absent")
    assert refusal(getattr(sqs, action), QueueUrl=url, **members) == NO_QUEUE


def test_lists_by_prefix_and_in_pages(sqs: Any, fresh_name: FreshName) -> None:
    prefix = fresh_name("paged")
    urls = sorted(sqs.create_queue(QueueName=f"{prefix}-{number}")["QueueUrl"] for number in range(7))
    assert sorted(sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"]) == urls
    first = sqs.list_queues(QueueNamePrefix=prefix, MaxResults=3)
    assert len(first["QueueUrls"]) == 3
    assert first["NextToken"]
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix, PaginationConfig={"PageSize": 3})
    assert sorted(url for page in pages for url in page["QueueUrls"]) == urls


def test_no_queue_with_such_a_prefix(sqs: Any, fresh_name: FreshName) -> None:
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=fresh_name("none"))


@pytest.mark.parametrize("count", [0, 1001])
def test_a_page_has_one_to_a_thousand(sqs: Any, count: int) -> None:
    assert refusal(sqs.list_queues, MaxResults=count) == INVALID_PARAMETER


def test_tags(sqs: Any, fresh_name: FreshName) -> None:
    url = sqs.create_queue(QueueName=fresh_name("tagged"), tags={"team": "a", "stage": "b"})["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a", "stage": "b"}
    sqs.tag_queue(QueueUrl=url, Tags={"stage": "c", "new": ""})
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "absent"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"stage": "c", "new": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["stage", "new"])
    assert not sqs.list_queue_tags(QueueUrl=url).get("Tags")


@pytest.mark.parametrize(
    "tags", [{f"k{n}": "v" for n in range(51)}, {"k" * 129: "v"}, {"k": "v" * 257}], ids=["51", "key", "value"]
)
def test_tags_beyond_their_limits(sqs: Any, queue: str, tags: dict[str, str]) -> None:
    assert refusal(sqs.tag_queue, QueueUrl=queue, Tags=tags) == INVALID_PARAMETER
    assert not sqs.list_queue_tags(QueueUrl=queue).get("Tags")


def test_permissions_become_statements_of_the_policy(sqs: Any, queue: str) -> None:
    sqs.add_permission(
        QueueUrl=queue, Label="first", AWSAccountIds=["123456789012"], Actions=["SendMessage", "ReceiveMessage"]
    )
    sqs.add_permission(QueueUrl=queue, Label="second", AWSAccountIds=["123456789012"], Actions=["*"])
    statements = json.loads(attribute(sqs, queue, "Policy"))["Statement"]
    assert sorted(each["Sid"] for each in statements) == ["first", "second"]
    sqs.remove_permission(QueueUrl=queue, Label="first")
    statements = json.loads(attribute(sqs, queue, "Policy"))["Statement"]
    assert [each["Sid"] for each in statements] == ["second"]


def test_permissions_that_are_refused(sqs: Any, queue: str) -> None:
    sqs.add_permission(QueueUrl=queue, Label="one", AWSAccountIds=["123456789012"], Actions=["SendMessage"])
    assert (
        refusal(
            sqs.add_permission, QueueUrl=queue, Label="one", AWSAccountIds=["123456789012"], Actions=["SendMessage"]
        )
        == INVALID_PARAMETER
    )
    assert (
        refusal(sqs.add_permission, QueueUrl=queue, Label="two", AWSAccountIds=["123456789012"], Actions=["Unheard"])
        == INVALID_PARAMETER
    )
    assert refusal(sqs.remove_permission, QueueUrl=queue, Label="absent") == INVALID_PARAMETER
    many = ["SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"]
    many += ["GetQueueUrl", "ListDeadLetterSourceQueues", "PurgeQueue"]
    assert (
        refusal(sqs.add_permission, QueueUrl=queue, Label="three", AWSAccountIds=["123456789012"], Actions=many)
        == OVER_LIMIT
    )


def test_a_purge_empties_the_queue_and_comes_once_a_minute(sqs: Any, queue: str) -> None:
    send(sqs, queue, "a", "b", "c")
    receive(sqs, queue, 1)
    sqs.purge_queue(QueueUrl=queue)
    assert nothing_comes(sqs, queue)
    eventually(lambda: attribute(sqs, queue, "ApproximateNumberOfMessages") == "0", "the queue is empty")
    assert refusal(sqs.purge_queue, QueueUrl=queue) == PURGE_IN_PROGRESS
    send(sqs, queue, "after")
    assert receive(sqs, queue)[0]["Body"] == "after"


def test_a_deleted_queue_takes_its_messages_along(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue()
    send(sqs, url, "gone")
    sqs.delete_queue(QueueUrl=url)
    assert refusal(send, sqs, url, "late") == NO_QUEUE


@pytest.mark.parametrize("url", ["", "http://127.0.0.1/000000000000/a b"])
def test_invalid_addresses(careless: Any, endpoint: str, url: str) -> None:
    assert refusal(careless.send_message, QueueUrl=url, MessageBody="x") == INVALID_ADDRESS


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://no-such-host"])
def test_an_address_without_a_queue(sqs: Any, url: str) -> None:
    assert refusal(sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["All"]) == NO_QUEUE
