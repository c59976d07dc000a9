"""The structures have what the service's own model has: every action, every member, each by its name and type."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import inspect

from longhall.doors.sqs.operations import MESSAGE_HANDLERS, QUEUE_HANDLERS
from longhall.doors.sqs.wire.actions import ACTIONS
from longhall.doors.sqs.wire.names import FLAT_NAMES, flat_name
from longhall.doors.sqs.wire.results import Nothing
from tests.doors.sqs.clients import query_model, shipped_model

MODEL = shipped_model()
SHAPES = MODEL["shapes"]


def bare(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


def check(kind: inspect.Type, shape_name: str) -> None:
    shape = SHAPES[shape_name]
    kind = bare(kind)
    if shape["type"] == "structure":
        assert isinstance(kind, inspect.StructType), shape_name
        check_structure(kind, shape_name)
    elif shape["type"] == "list":
        assert isinstance(kind, inspect.ListType), shape_name
        check(kind.item_type, shape["member"]["shape"])
    elif shape["type"] == "map":
        assert isinstance(kind, inspect.DictType), shape_name
        check(kind.value_type, shape["value"]["shape"])
    else:
        wanted: dict[str, type[inspect.Type]] = {
            "string": inspect.StrType,
            "integer": inspect.IntType,
            "long": inspect.IntType,
            "boolean": inspect.BoolType,
            "blob": inspect.BytesType,
        }
        assert isinstance(kind, wanted[shape["type"]]), shape_name


def check_structure(kind: inspect.StructType, shape_name: str) -> None:
    shape = SHAPES[shape_name]
    ours = {field.encode_name: field for field in kind.fields}
    theirs = dict(shape["members"])
    if kind.cls.__name__ == "AttributeValueResult":  # Lists are never given, so they are never answered.
        del theirs["StringListValues"], theirs["BinaryListValues"]
    assert set(ours) == set(theirs), shape_name
    for name, field in ours.items():
        check(field.type, theirs[name]["shape"])


@pytest.mark.parametrize("name", sorted(MODEL["operations"]))
def test_an_action_takes_and_gives_what_the_service_says(name: str) -> None:
    operation = MODEL["operations"][name]
    check(inspect.type_info(ACTIONS[name].request), operation["input"]["shape"])
    if "output" in operation:
        check(inspect.type_info(ACTIONS[name].result), operation["output"]["shape"])
    else:
        assert ACTIONS[name].result is Nothing


def test_every_action_is_there_and_handled() -> None:
    assert set(ACTIONS) == set(MODEL["operations"]) == set({**MESSAGE_HANDLERS, **QUEUE_HANDLERS})
    assert len(ACTIONS) == 23


def test_what_the_service_requires_is_required() -> None:
    # Empty batches and lists have errors of their own, so a list that is missing is read as an empty one.
    for name, action in ACTIONS.items():
        theirs = set(SHAPES[MODEL["operations"][name]["input"]["shape"]].get("required", ()))
        fields = msgspec.structs.fields(action.request)
        ours = {field.encode_name for field in fields if field.required}
        assert ours == theirs - {"Entries", "AWSAccountIds", "Actions"}


def test_lists_and_maps_have_the_names_of_the_query_protocol() -> None:
    model = query_model()
    for name, operation in model["operations"].items():
        for end in ("input", "output"):
            if end in operation:
                walk(model, operation[end]["shape"], name)


def walk(model: dict[str, Any], shape_name: str, action: str) -> None:
    for member, reference in model["shapes"][shape_name]["members"].items():
        shape = model["shapes"][reference["shape"]]
        if shape["type"] not in ("list", "map"):
            assert member not in FLAT_NAMES
            continue
        inner = shape["member" if shape["type"] == "list" else "value"]
        assert flat_name(member, action) == reference.get("locationName", inner.get("locationName"))
        if model["shapes"][inner["shape"]]["type"] == "structure":
            walk(model, inner["shape"], action)
