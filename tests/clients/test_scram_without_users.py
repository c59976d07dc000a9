"""SCRAM users that Kafka's clients make on a node without users: no door asks for a login because of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.clients.accounts import Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import Served

PUT = UserScramCredentialUpsertion("early", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"a password")
GONE = UserScramCredentialDeletion("early", ScramMechanism.SCRAM_SHA_256)


def _open(node: Served, **login: str) -> bool:
    client = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0, **login})
    try:
        return bool(client.list_topics(timeout=5))
    except KafkaException:
        return False


@pytest.mark.slow
def test_doors_ask_for_logins_from_the_first_administrator_on(tmp_path: Path) -> None:
    with Served(tmp_path / "data", workers=1) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.alter_user_scram_credentials([PUT])["early"].result(20)
        described = admin.describe_user_scram_credentials(["early"])["early"].result(20)
        assert [info.iterations for info in described.scram_credential_infos] == [4096]
        assert _open(node)
        node.kill()
        node.start()
        assert _open(node)  # It is a user because of whom no door asks, also after a crash.

        administrator = Administrator(node.http)
        eventually(lambda: not _open(node), "anonymous clients are refused")
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "early"}
        assert _open(node, **login, **{"sasl.password": "a password"})
        administrator.add_user("late")
        assert not _open(node)


def test_such_users_are_removed_like_others(tmp_path: Path) -> None:
    with Served(tmp_path / "data", workers=1) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.alter_user_scram_credentials([PUT])["early"].result(20)
        admin.alter_user_scram_credentials([GONE])["early"].result(20)
        with pytest.raises(KafkaException, match="does not exist"):
            admin.describe_user_scram_credentials(["early"])["early"].result(20)
        assert _open(node)
