"""Every refusal of ours has a word in this dialect, and every word is the service's own."""

from __future__ import annotations

from longhall.doors.sqs.errors import FAULT_OF, error_of
from longhall.doors.sqs.wire import faults
from longhall.doors.sqs.wire.faults import Fault
from longhall.errors import Code
from tests.doors.sqs.clients import CODES, shipped_model


def test_every_code_has_a_fault() -> None:
    assert set(FAULT_OF) == set(Code)
    for code in Code:
        assert error_of(code).message


def test_every_error_of_the_service_is_known_by_its_shape_its_code_and_its_status() -> None:
    known = {fault.shape: fault for fault in vars(faults).values() if isinstance(fault, Fault)}
    shapes = {name for name, shape in shipped_model()["shapes"].items() if shape.get("exception")}
    assert shapes <= set(known)
    for shape, (code, status) in CODES.items():
        assert (known[shape].code, known[shape].status) == (code, status)
    assert known["RequestThrottled"].status == 403


def test_what_can_be_asked_again_is_our_fault_or_throttling() -> None:
    for code in (Code.NOT_READY, Code.STORAGE_FULL, Code.TIMED_OUT, Code.NOT_LEADER):
        assert FAULT_OF[code].status == 503
        assert not FAULT_OF[code].sender
    assert FAULT_OF[Code.OVERLOADED].shape == "RequestThrottled"
