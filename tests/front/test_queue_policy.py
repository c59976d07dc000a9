"""Policies of queues: statements, principals, conditions, and what they mean at doors without SQS' actions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longhall.directory.access_rules import AccessAction
from longhall.front.permissions import RequestOrigin
from longhall.front.queue_policy import PolicyCaller, PolicyVerdict, verdict

ARN = "arn:aws:sqs:us-east-1:000000000000:q"
ANN = "arn:aws:iam::000000000000:user/ann"


def _says(statements: list[dict[str, Any]] | dict[str, Any], action: str, **caller: Any) -> PolicyVerdict:
    text = json.dumps({"Version": "2012-10-17", "Statement": statements})
    origin = RequestOrigin(caller.pop("address", "10.0.0.1"), caller.pop("tls", False), 0)
    who = PolicyCaller(caller.pop("user", "ann"), caller.pop("roles", ()), origin, action)
    assert not caller
    return verdict(text, ARN, AccessAction.READ, who)


def _statement(effect: str = "Allow", principal: Any = "*", action: Any = "sqs:SendMessage", **more: Any) -> Any:
    return {"Effect": effect, "Principal": principal, "Action": action, "Resource": ARN, **more}


@pytest.mark.parametrize(
    ("principal", "applies"),
    [
        ("*", True),
        ({"AWS": "*"}, True),
        ({"AWS": ANN}, True),
        ({"AWS": ["arn:aws:iam::000000000000:user/bob", ANN]}, True),
        ({"AWS": "000000000000"}, True),
        ({"AWS": "arn:aws:iam::000000000000:root"}, True),
        ({"AWS": "arn:aws:iam::000000000000:role/billing"}, True),
        ({"AWS": "arn:aws:iam::000000000000:role/other"}, False),
        ({"AWS": "arn:aws:iam::000000000000:user/bob"}, False),
        ({"AWS": "111111111111"}, False),
        ({"Service": "sns.amazonaws.com"}, False),
    ],
)
def test_principals(principal: Any, applies: bool) -> None:
    expected = PolicyVerdict.ALLOWED if applies else PolicyVerdict.SILENT
    assert _says(_statement(principal=principal), "SendMessage", roles=("billing",)) is expected


@pytest.mark.parametrize(
    ("action", "applies"),
    [
        ("sqs:SendMessage", True),
        ("SQS:sendmessage", True),
        ("sqs:Send*", True),
        ("sqs:*", True),
        ("*", True),
        (["sqs:ReceiveMessage", "sqs:SendMessage"], True),
        ("sqs:ReceiveMessage", False),
        ("sns:SendMessage", False),
        ("SendMessage", False),
    ],
)
def test_actions(action: Any, applies: bool) -> None:
    expected = PolicyVerdict.ALLOWED if applies else PolicyVerdict.SILENT
    assert _says(_statement(action=action), "SendMessage") is expected
    assert _says(_statement(action=action), "SendMessageBatch") is expected


def test_a_deny_wins_whatever_the_order() -> None:
    allow, deny = _statement(action="sqs:*"), _statement("Deny", {"AWS": ANN})
    assert _says([allow, deny], "SendMessage") is PolicyVerdict.DENIED
    assert _says([deny, allow], "SendMessage") is PolicyVerdict.DENIED
    assert _says([deny, allow], "ReceiveMessage") is PolicyVerdict.ALLOWED
    assert _says([deny, allow], "SendMessage", user="bob") is PolicyVerdict.ALLOWED


def test_statements_by_what_they_leave_out() -> None:
    but_ann = {**_statement("Deny"), "NotPrincipal": {"AWS": ANN}}
    del but_ann["Principal"]
    assert _says(but_ann, "SendMessage") is PolicyVerdict.SILENT
    assert _says(but_ann, "SendMessage", user="bob") is PolicyVerdict.DENIED
    but_send = {**_statement("Deny"), "NotAction": "sqs:SendMessage"}
    del but_send["Action"]
    assert _says(but_send, "SendMessage") is PolicyVerdict.SILENT
    assert _says(but_send, "DeleteQueue") is PolicyVerdict.DENIED
    other = {**_statement(), "Resource": "arn:aws:sqs:us-east-1:000000000000:other"}
    assert _says(other, "SendMessage") is PolicyVerdict.SILENT


@pytest.mark.parametrize(
    ("condition", "caller", "holds"),
    [
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {"address": "10.1.1.1"}, True),
        ({"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "::1"]}}, {"address": "192.0.2.1"}, False),
        ({"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {"address": "192.0.2.1"}, True),
        ({"Bool": {"aws:SecureTransport": "true"}}, {"tls": True}, True),
        ({"Bool": {"aws:SecureTransport": True}}, {"tls": False}, False),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/a*"}}, {}, True),
        ({"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/a*"}}, {}, False),
        ({"StringEquals": {"aws:username": "ann"}}, {}, True),
        ({"ArnEquals": {"aws:SourceArn": "arn:aws:sns:us-east-1:1:t"}}, {}, False),
        ({"ArnEqualsIfExists": {"aws:SourceArn": "arn:aws:sns:us-east-1:1:t"}}, {}, True),
        ({"Null": {"aws:SourceArn": "true"}}, {}, True),
        ({"Bool": {"aws:SecureTransport": "true"}, "StringEquals": {"aws:username": "bob"}}, {"tls": True}, False),
    ],
)
def test_conditions(condition: Any, caller: dict[str, Any], holds: bool) -> None:
    allowed = _says(_statement(Condition=condition), "SendMessage", **caller)
    denied = _says(_statement("Deny", Condition=condition), "SendMessage", **caller)
    assert (allowed, denied) == (
        (PolicyVerdict.ALLOWED, PolicyVerdict.DENIED) if holds else (PolicyVerdict.SILENT, PolicyVerdict.SILENT)
    )


def test_an_operator_that_is_not_known_protects() -> None:
    condition = {"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}
    assert _says(_statement(Condition=condition), "SendMessage") is PolicyVerdict.SILENT
    assert _says(_statement("Deny", Condition=condition), "SendMessage") is PolicyVerdict.DENIED


def test_doors_without_actions_of_sqs() -> None:
    origin = RequestOrigin("", False, 0)

    def says(statement: Any, action: AccessAction) -> PolicyVerdict:
        text = json.dumps({"Statement": [statement]})
        return verdict(text, ARN, action, PolicyCaller("ann", (), origin))

    assert says(_statement(), AccessAction.WRITE) is PolicyVerdict.ALLOWED
    assert says(_statement(), AccessAction.DESCRIBE) is PolicyVerdict.ALLOWED
    receive = _statement(action="sqs:ReceiveMessage")
    assert says(receive, AccessAction.READ) is PolicyVerdict.SILENT, "to read is to delete too"
    assert (
        says(_statement(action=["sqs:ReceiveMessage", "sqs:DeleteMessage"]), AccessAction.READ) is PolicyVerdict.ALLOWED
    )
    assert says(_statement("Deny", action="sqs:DeleteMessage"), AccessAction.READ) is PolicyVerdict.DENIED
    assert says(_statement(action="sqs:PurgeQueue"), AccessAction.DELETE) is PolicyVerdict.SILENT
    assert says(_statement(action="sqs:*"), AccessAction.CREATE) is PolicyVerdict.SILENT
    assert verdict("{", ARN, AccessAction.WRITE, PolicyCaller("ann", (), origin)) is PolicyVerdict.SILENT
