"""A slice of `./dev soak balancers`: a balancer and a front end die under load by every door.

The whole of it, with the time within which the address moves, is for `./dev soak balancers`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from house.environment import ROOT
from soak.balancers import missing_program
from soak.field import enclosed
from tests.left_out import leave_out
from tests.soak.test_storm import NO_FIELD, _try_zookeeper

HANG_SECONDS = 500.0
FAULTS = "balancer,front"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_request_fails_that_its_client_does_not_repeat(tmp_path: Path) -> None:
    if reason := missing_program():
        leave_out(reason)
    words = ["--minutes", "0", "--faults", FAULTS, "--address-seconds-max", "0", "--directory", str(tmp_path / "soak")]
    command = enclosed([sys.executable, "-m", "soak", "balancers", *words])
    if not command:
        leave_out(NO_FIELD)
    _try_zookeeper(tmp_path / "ensemble")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    print(done.stdout[-6000:])
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    for door in ("sqs", "http", "kafka", "amqp", "stomp"):
        assert f"\n{door}: " in f"\n{done.stdout}"
