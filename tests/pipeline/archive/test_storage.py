"""Places for archives: a local disk, and S3 as moto has it. What is written is whole, and failures are one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.pipeline.archive.ledger import Ledger
from longhall.pipeline.archive.manifest import Piece, extended
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.refusals import PipelineError
from tests.left_out import leave_out


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of a bucket in a mock of S3 that the bench has fetched."""
    import boto3

    from bench.peers.moto import Moto, environment
    from bench.peers.node import BrokerFailed

    try:
        environment()
    except BrokerFailed as failure:
        leave_out(f"S3: {str(failure).splitlines()[0]}")
    with pytest.MonkeyPatch.context() as patch, Moto() as server:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        boto3.client("s3", endpoint_url=f"http://{server.address}", region_name="us-east-1").create_bucket(
            Bucket="hall"
        )
        yield f"s3://hall/archive?endpoint_override={server.address}&scheme=http&region=us-east-1"


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "deep" / "archive") if request.param == "local" else request.getfixturevalue("s3"))


def test_files_are_put_listed_read_and_deleted(storage: Storage) -> None:
    storage.check()
    storage.put("topic=a/one", b"1")
    storage.put("topic=a/deep/two", b"22")
    storage.put("topic=a/one", b"111")
    assert storage.list("topic=a") == ["topic=a/deep/two", "topic=a/one"]
    assert storage.list("topic=b") == []
    assert memoryview(storage.read("topic=a/one")).tobytes() == b"111"
    assert (storage.size_bytes("topic=a/one"), storage.size_bytes("topic=a/none")) == (3, None)
    storage.delete("topic=a/one")
    storage.delete("topic=a/one")
    assert storage.list("topic=a") == ["topic=a/deep/two"]
    with pytest.raises(PipelineError, match="lacks topic=a/one"):
        storage.read("topic=a/one")


def test_one_writer_publishes_at_a_time(storage: Storage) -> None:
    ledger = Ledger(storage, "t")
    first = ledger.publish(extended(ledger.claim("a1", "aa"), {0: [Piece(base=0, end=5)]}))
    second = ledger.claim("b2", "aa")
    with pytest.raises(PipelineError, match="another archiver has taken over"):
        ledger.publish(extended(first, {0: [Piece(base=5, end=6)]}))
    second = ledger.publish(extended(second, {0: [Piece(base=5, end=9)]}))
    assert ledger.latest() == second


def test_a_place_without_access_is_one_line(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        place = Path("/proc/archive")
    else:
        place = tmp_path / "locked"
        place.mkdir(mode=0o500)
    with pytest.raises(PipelineError, match="cannot be written: "):
        Storage(str(place / "deeper")).check()


def test_what_a_url_may_hide_is_not_told() -> None:
    assert Storage("s3://key:secret@hall/archive?region=us-east-1").name == "s3://hall/archive"
    assert Storage("s3://hall/archive?region=us-east-1").name == "s3://hall/archive"
