"""Requests that carry their signature in the address, as old asynchronous clients send them."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any
from xml.etree import ElementTree

import pytest
from botocore.awsrequest import AWSRequest

from tests.clients.sqs.words import bodies, receive, send

SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"


def ask(client: Any, url: str, **members: str) -> ElementTree.Element:
    """One presigned GET to that address; the answer's XML."""
    request = AWSRequest(method="GET", url=url, params={"Version": "2012-11-05", **members})
    client._request_signer.sign(members["Action"], request, signing_type="presign-url")
    with urllib.request.urlopen(request.prepare().url, timeout=30) as response:
        assert response.headers["Content-Type"].startswith("text/xml")
        return ElementTree.fromstring(response.read())


def test_a_message_is_sent_and_received(sqs: Any, queue: str) -> None:
    sent = ask(sqs, queue, Action="SendMessage", MessageBody="prä <signed>")
    assert sent.tag == f"{SPACE}SendMessageResponse"
    assert sent.findtext(f".//{SPACE}RequestId")
    got = ask(sqs, queue, Action="ReceiveMessage", **{"AttributeName.1": "All", "WaitTimeSeconds": "2"})
    assert got.findtext(f".//{SPACE}Body") == "prä <signed>"
    assert got.findtext(f".//{SPACE}MessageId") == sent.findtext(f".//{SPACE}MessageId")
    named = {each.findtext(f"{SPACE}Name"): each.findtext(f"{SPACE}Value") for each in got.iter(f"{SPACE}Attribute")}
    assert named["ApproximateReceiveCount"] == "1"
    handle = got.findtext(f".//{SPACE}ReceiptHandle") or ""
    ask(sqs, queue, Action="DeleteMessage", ReceiptHandle=handle)
    assert not sqs.receive_message(QueueUrl=queue).get("Messages")


def test_the_root_takes_the_queue_as_a_parameter(sqs: Any, queue: str, endpoint: str) -> None:
    ask(sqs, f"{endpoint}/", Action="SendMessage", MessageBody="by parameter", QueueUrl=queue)
    assert bodies(receive(sqs, queue)) == ["by parameter"]
    name = queue.rsplit("/", 1)[1]
    assert ask(sqs, f"{endpoint}/", Action="GetQueueUrl", QueueName=name).findtext(f".//{SPACE}QueueUrl") == queue


def test_an_error_in_xml(sqs: Any, queue: str) -> None:
    send(sqs, queue, "stays")
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(sqs, queue, Action="ReceiveMessage", MaxNumberOfMessages="11")
    assert caught.value.code == 400
    said = ElementTree.fromstring(caught.value.read())
    assert said.tag == f"{SPACE}ErrorResponse"
    assert said.findtext(f"{SPACE}Error/{SPACE}Type") == "Sender"
    assert said.findtext(f"{SPACE}Error/{SPACE}Code") == "InvalidParameterValue"
    assert said.findtext(f"{SPACE}RequestId")
