"""Both protocols carry the same: what botocore writes we read alike, and what we write botocore reads alike."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.doors.sqs.wire import faults, json, query, xml
from longhall.doors.sqs.wire.actions import ACTIONS
from longhall.doors.sqs.wire.faults import Fault, SqsError
from longhall.doors.sqs.wire.results import Nothing, Result
from tests.doors.sqs.clients import query_model, shipped_model
from tests.examples import examples

JSON = ServiceModel(shipped_model(), "sqs")
QUERY = ServiceModel(query_model(), "sqs")

texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
edges = st.sampled_from(["a\r\nb", " <&>\"' ", "\t\n", "é\U0001f600", "a=b&c%20+", "]]>", "1"])
words = texts | edges


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Anything that fits a shape of the model."""
    kind = shape.type_name
    if kind == "structure":
        required = {name: values(member) for name, member in shape.members.items() if name in shape.required_members}
        optional = {name: values(member) for name, member in shape.members.items() if name not in required}
        return st.fixed_dictionaries(required, optional=optional)
    if kind == "list":
        return st.lists(values(shape.member), min_size=1, max_size=3)
    if kind == "map":
        return st.dictionaries(words, values(shape.value), min_size=1, max_size=3)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "string": words,
        "integer": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**53), 2**53),
        "boolean": st.booleans(),
        "blob": st.binary(min_size=1, max_size=20),
    }
    return plain[kind]


@pytest.mark.parametrize("action", sorted(ACTIONS))
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_a_request_is_the_same_in_both_protocols(action: str, data: st.DataObject) -> None:
    parameters = data.draw(values(JSON.operation_model(action).input_shape))
    as_json = create_serializer("json", False).serialize_to_request(parameters, JSON.operation_model(action))
    as_query = create_serializer("query", False).serialize_to_request(parameters, QUERY.operation_model(action))
    body = as_json["body"] if isinstance(as_json["body"], bytes) else as_json["body"].encode()
    first = json.decode_request(action, body)
    second = query.decode_request(action, query.parse_form(urlencode(as_query["body"]).encode()))
    assert first == second
    assert type(first) is ACTIONS[action].request


@pytest.mark.parametrize("action", sorted(name for name, action in ACTIONS.items() if action.result is not Nothing))
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_an_answer_is_the_same_in_both_protocols(action: str, data: st.DataObject) -> None:
    shape = JSON.operation_model(action).output_shape
    drawn = data.draw(values(shape))
    try:
        result: Result = msgspec.convert(_written(drawn), ACTIONS[action].result)
    except msgspec.ValidationError:
        return  # Members that we always give were left out.
    head = {"status_code": 200, "headers": {"content-type": "x"}}
    as_json = create_parser("json").parse({**head, "body": json.encode_result(result)}, shape)
    query_shape = QUERY.operation_model(action).output_shape
    as_query = create_parser("query").parse({**head, "body": xml.encode_result(action, result, "id-1")}, query_shape)
    assert as_query.pop("ResponseMetadata")["RequestId"] == "id-1"
    as_json.pop("ResponseMetadata")
    assert as_query == {name: value for name, value in as_json.items() if value != []}


def _written(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _written(v) for k, v in value.items() if k not in ("StringListValues", "BinaryListValues")}
    return [_written(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("fault", [fault for fault in vars(faults).values() if isinstance(fault, Fault)], ids=str)
def test_an_error_is_the_same_in_both_protocols(fault: Fault) -> None:
    error = SqsError(fault, "why <not> & \x00how")
    headers = {"x-amzn-requestid": "id-1", json.QUERY_ERROR_HEADER: f"{fault.code};{fault.type}"}
    answer = {"status_code": fault.status, "headers": headers, "body": json.encode_error(error)}
    as_json = create_parser("json").parse(answer, None)
    answer = {"status_code": fault.status, "headers": {}, "body": xml.encode_error(error, "id-1")}
    as_query = create_parser("query").parse(answer, None)
    assert as_json["Error"]["Message"].replace("\x00", "\ufffd") == as_query["Error"]["Message"]
    assert as_query["Error"]["Code"] == fault.code
    assert as_query["Error"]["Type"] == fault.type
    assert as_query["ResponseMetadata"]["RequestId"] == "id-1"


def refusal(action: str, form: bytes) -> Fault:
    with pytest.raises(SqsError) as caught:
        query.decode_request(action, query.parse_form(form))
    return caught.value.fault


@pytest.mark.parametrize(
    "form",
    [
        b"%ff=1",
        b"QueueUrl=%ff",
        b"\xff=1",
        b"QueueUrl",
        b"QueueUrl=a&&",
        b"&".join(b"a=b" for _ in range(3000)),
        b"QueueUrl=q&MessageBody.1=b",
        b"QueueUrl=q&MessageBody=b&MessageBody.1=b",
        b"QueueUrl=q&MessageBody=b&MessageAttribute.x.Name=b",
        b"QueueUrl=q&MessageBody=b&MessageAttribute.1=b",
        b"QueueUrl=q&MessageBody=b&MessageAttribute.1.Name.a=b",
        b"QueueUrl=q&MessageBody=b&MessageAttribute.1.Name=b&MessageAttribute.1.Value=b",
        b"QueueUrl=q&MessageBody=b&MessageAttribute.999999.Name=b",
        b"QueueUrl=q&MessageBody=b&a.b.c.d.e.f.g.h.i.j=1",
        b"QueueUrl=q&MessageBody=b&MessageAttribute.1.Name=b&MessageAttribute.1.Value.DataType=String"
        b"&MessageAttribute.2.Name=b&MessageAttribute.2.Value.DataType=String",
    ],
)
def test_a_form_that_makes_no_sense_is_refused(form: bytes) -> None:
    assert refusal("SendMessage", form) is faults.MALFORMED_QUERY


def test_an_attribute_of_a_form_needs_a_name() -> None:
    for form in (b"MessageAttribute.1.Value.DataType=String", b"MessageAttribute.1.key=a"):
        assert refusal("SendMessage", b"QueueUrl=q&MessageBody=b&" + form) is faults.INVALID_PARAMETER


def test_wrong_types_and_missing_members_are_told_apart() -> None:
    assert refusal("SendMessage", b"QueueUrl=q") is faults.MISSING_PARAMETER
    assert refusal("SendMessage", b"QueueUrl=q&MessageBody=b&DelaySeconds=soon") is faults.MALFORMED
    form = b"QueueUrl=q&MessageBody=b&MessageAttribute.1.Name=b&MessageAttribute.1.Value.DataType=Binary"
    assert refusal("SendMessage", form + b"&MessageAttribute.1.Value.BinaryValue=%25%25") is faults.MALFORMED


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"QueueUrl": 1, "MessageBody": "b"}',
        b'{"QueueUrl": "q", "MessageBody": "b", "MessageAttributes": {"a": null}}',
        b'{"QueueUrl": "q", "MessageBody": "b", "DelaySeconds": "1"}',
        b'{"QueueUrl": "q", "MessageBody": "b", "DelaySeconds": 1.5}',
        b'{"QueueUrl": "q", "MessageBody": "b", "DelaySeconds": true}',
        b'{"QueueUrl": "q", "MessageBody": "b", "MessageAttributes": []}',
        b'{"QueueUrl": "q", "MessageBody": "", "MessageAttributes": {"a": {"DataType": "Number", "BinaryValue": "%"}}}',
        b'{"QueueUrl": "\xff", "MessageBody": "b"}',
        b'{"QueueUrl": "q", "MessageBody": "b"} x',
        b'{"QueueUrl": "q", "MessageBody": "b", "x": ' + b"[" * 100_000,
    ],
)
def test_json_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises(SqsError) as caught:
        json.decode_request("SendMessage", body)
    assert caught.value.fault is faults.MALFORMED


@pytest.mark.parametrize("body", [b'{"QueueUrl": "q"}', b'{"QueueUrl": "q", "MessageBody": null}'])
def test_a_missing_member_is_named(body: bytes) -> None:
    with pytest.raises(SqsError, match="parameter MessageBody"):
        json.decode_request("SendMessage", body)
    with pytest.raises(SqsError, match=r"parameter DeleteMessageBatchRequestEntry.1.Id") as caught:
        json.decode_request("DeleteMessageBatch", b'{"QueueUrl": "q", "Entries": [{"ReceiptHandle": "r"}]}')
    assert caught.value.fault is faults.MISSING_PARAMETER


def test_members_that_nobody_knows_are_ignored() -> None:
    json.decode_request("ListQueues", b'{"Future": [1, {"x": null}]}')
    query.decode_request("ListQueues", query.parse_form(b"Action=ListQueues&Version=2012-11-05&Future.1.x=1"))
    json.decode_request("ListQueues", b"")
