"""ZooKeeper addresses as written in settings."""

from __future__ import annotations

import pytest

from longhall.coordination.address import ZooKeeperAddress, parse_address
from longhall.errors import Code, LonghallError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zk://a:1", ZooKeeperAddress("a:1")),
        ("zk://a", ZooKeeperAddress("a:2181")),
        ("zk://a:1,b.example:2,10.0.0.3/", ZooKeeperAddress("a:1,b.example:2,10.0.0.3:2181")),
        ("zk://a:1/halls/one", ZooKeeperAddress("a:1", "/halls/one")),
        ("zk://[::1]:2181/x", ZooKeeperAddress("[::1]:2181", "/x")),
        ("zk://me:s@crt:x@a:1/x", ZooKeeperAddress("a:1", "/x", "me", "s@crt:x")),
    ],
)
def test_addresses(text: str, expected: ZooKeeperAddress) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zk://",
        "kafka://a:1",
        "zk://a:0",
        "zk://a:70000",
        "zk://a:1,,b:1",
        "zk://a b:1",
        "zk://a:1//x",
        "zk://a:1/x/../y",
        "zk://a:1/x y",
        "zk://me@a:1",
        "zk://:secret@a:1",
        "zk://" + ",".join(["a:1"] * 33),
    ],
)
def test_malformed_addresses_are_refused(text: str) -> None:
    with pytest.raises(LonghallError) as refused:
        parse_address(text)
    assert refused.value.code is Code.INVALID_CONFIGURATION
    assert "secret" not in str(refused.value)


def test_a_password_is_not_shown() -> None:
    assert str(parse_address("zk://me:secret@a:1/x")) == "zk://me@a:1/x"
