"""Settings from every source: what wins, what is refused, and how the refusal reads."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from longhall.errors import Code, LonghallError
from longhall.node.section_settings import CleanerSettings
from longhall.node.settings import Settings
from longhall.node.sources import every_setting, load, value_of


def refusal(**arguments: object) -> str:
    with pytest.raises(LonghallError) as caught:
        load(**arguments)  # type: ignore[arg-type]
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert "\n" not in str(caught.value)
    return str(caught.value)


def written(directory: Path, text: str) -> str:
    file = directory / "longhall.toml"
    file.write_text(text)
    return str(file)


def test_with_nothing_said_everything_has_its_default() -> None:
    assert load().settings == Settings()
    assert load().warnings == ()


def test_each_source_overrides_the_one_before(tmp_path: Path) -> None:
    file = written(tmp_path, 'data = "from-file"\nkafka = "127.0.0.1:1"\nhttp = "127.0.0.1:1"\nshards = 3\n')
    environment = {"LONGHALL_KAFKA": "127.0.0.1:2", "LONGHALL_HTTP": "127.0.0.1:2", "PATH": "/bin"}
    settings = load(file, environment, {"http": "127.0.0.1:3", "data": None}).settings
    assert (settings.data, settings.kafka, settings.http, settings.shards) == (
        "from-file",
        "127.0.0.1:2",
        "127.0.0.1:3",
        3,
    )


def test_words_are_understood_everywhere(tmp_path: Path) -> None:
    file = written(tmp_path, 'retention_ms = "2 weeks"\n[cleaner]\ninterval_ms = "1.5s"\n')
    environment = {"LONGHALL_MEMORY_BYTES": "64 MiB", "LONGHALL_AUTO_CREATE_TOPICS": "no"}
    settings = load(file, environment, {"retention_bytes": "unlimited", "segment_bytes": "1gib"}).settings
    assert settings.retention_ms == 14 * 86_400_000
    assert settings.cleaner == CleanerSettings(interval_ms=1_500)
    assert settings.memory_bytes == 64 << 20
    assert settings.auto_create_topics is False
    assert settings.retention_bytes == -1
    assert settings.segment_bytes == 1 << 30


def test_nested_settings_are_reached_from_the_environment_and_by_flags() -> None:
    assert load(None, {"LONGHALL_CLEANER__INTERVAL_MS": "20s"}).settings.cleaner.interval_ms == 20_000
    assert load(flags={"cleaner.dirty_ratio": "0.25"}).settings.cleaner.dirty_ratio == 0.25


def test_a_misspelt_key_in_a_file_is_refused_with_its_path(tmp_path: Path) -> None:
    text = refusal(file=written(tmp_path, "[cleaner]\nintervall_ms = 5\n"))
    assert "cleaner.intervall_ms" in text
    assert "did you mean cleaner.interval_ms?" in text
    assert "longhall.toml" in text


def test_a_misspelt_variable_is_told_but_strangers_are_left_alone() -> None:
    loaded = load(None, {"LONGHALL_KAFAK": "x", "LONGHALL_SERVICE_HOST": "10.0.0.1", "LONGHALL_PROFILE": "p"})
    assert loaded.settings == Settings()
    assert loaded.warnings == ("environment LONGHALL_KAFAK is not a setting; did you mean LONGHALL_KAFKA?",)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"shards": 0}, ">= 1"),
        ({"shards": "many"}, "shards"),
        ({"memory_bytes": "lots"}, "256 MiB"),
        ({"retention_ms": "-5"}, "not a duration"),
        ({"durability": "sometimes"}, "always | interval | none"),
        ({"kafka": "9092"}, "HOST:PORT"),
        ({"kafka": "::1:9092"}, "brackets"),
        ({"kafka": "127.0.0.1:70000"}, "HOST:PORT"),
        ({"nonsense": 1}, "longhall settings"),
        ({"group_session_timeout_min_ms": "1h"}, "group_session_timeout_max_ms"),
        ({"consumer_groups.session_timeout_ms": "1h"}, "consumer_groups.session_timeout_max_ms"),
        ({"consumer_groups.heartbeat_interval_min_ms": "9s"}, "consumer_groups.heartbeat_interval_min_ms"),
        ({"consumer_groups.assignors": "best"}, "consumer_groups.assignors"),
        ({"consumer_groups.migration_policy": "never"}, "bidirectional | upgrade | downgrade | disabled"),
        ({"message_bytes_max": "200 MiB"}, "request_bytes_max"),
        ({"advertised_kafka": "nowhere"}, "advertised_kafka"),
        ({"role": "front"}, "--coordinator zk://HOST:PORT"),
        ({"role": "front", "coordinator": "zk://zoo", "durability": "none"}, "durability is for nodes that store"),
        ({"role": "front", "coordinator": "zk://zoo", "scale_hook": "true"}, "scale_hook is for nodes that store"),
        ({"role": "front", "coordinator": "zk://zoo", "scrub_interval_ms": "1h"}, "scrub_interval_ms is for nodes"),
        ({"agent_check": "everywhere"}, "HOST:PORT"),
        ({"agent_check": "10.0.0.1:9000"}, "agent_check = 10.0.0.1:9000 can be reached by others"),
        ({"agent_check": "127.0.0.1:0", "workers": 2}, "leave out --workers, or agent_check"),
        ({"drain_delay_ms": "5s", "workers": 2}, "leave out --workers, or drain_delay_ms"),
        ({"role": "storage"}, "--coordinator zk://HOST:PORT"),
        ({"role": "metadata"}, "--coordinator zk://HOST:PORT"),
        ({"role": "back"}, "all | front | metadata | storage"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(flags: dict[str, object], expected: str) -> None:
    assert expected in refusal(flags=flags)


def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "No such file" in refusal(file=str(tmp_path / "missing.toml"))
    assert "longhall.toml" in refusal(file=written(tmp_path, "data = \n"))
    assert "shards" in refusal(file=written(tmp_path, 'shards = "8"\n'))  # A file has types of its own.


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "example.org", "[::]"])
@pytest.mark.parametrize("door", ["kafka", "http"])
def test_others_can_reach_the_node_only_when_told_so(host: str, door: str) -> None:
    assert "--insecure" in refusal(flags={door: f"{host}:9092"})
    load(flags={door: f"{host}:9092", "insecure": True, "advertised_kafka": "hall.example.org:9092"})


TLS = {"tls.certificate": "server.crt", "tls.key": "server.key"}
MUTUAL = {**TLS, "tls.client_ca": "ca.crt", "tls.client_authentication": "required"}


@pytest.mark.parametrize("door", ["sqs", "amqp", "stomp", "stomp_websocket", "management", "http"])
def test_others_can_reach_a_door_with_tls_when_they_are_asked_who_they_are(door: str) -> None:
    everywhere = {door: "0.0.0.0:9324"}
    assert "--tls-certificate FILE --tls-key FILE" in refusal(flags={**everywhere, "credentials": "keys"})
    said = refusal(flags={**everywhere, **TLS, "authentication": "none"})
    assert "users have to log in" in said
    assert "--insecure" in said
    load(flags={**everywhere, **TLS})
    assert load(flags={**everywhere, **TLS, "credentials": "keys"}).settings.credentials == "keys"
    assert load(flags={**everywhere, **MUTUAL}).settings.credentials is None
    assert load(flags={**everywhere, "insecure": True}).settings.tls.certificate is None


def test_a_door_without_logins_asks_others_for_certificates() -> None:
    door = "prometheus"
    everywhere = {door: "0.0.0.0:9324"}
    assert "--tls-client-authentication required" in refusal(flags={**everywhere, **TLS, "credentials": "keys"})
    load(flags={**everywhere, **MUTUAL})
    load(flags={**everywhere, **MUTUAL, "tls.client_authentication": "none",
                "tls.client_authentication_doors": f"{door}=required"})  # fmt: skip


def test_clear_text_beside_tls_is_no_tls() -> None:
    everywhere = {"sqs": "0.0.0.0:9324", "credentials": "keys", **TLS}
    assert "there is no TLS" in refusal(flags={**everywhere, "tls.clear_text": True})
    assert "there is no TLS" in refusal(flags={**everywhere, "tls.doors": "kafka,http"})


def test_nodes_that_others_can_reach_speak_tls_with_each_other() -> None:
    beyond = {"coordinator": "zk://zoo1:2181", "peers": "10.0.0.1:7092", "cluster_secret": "file"}
    assert "--tls-peers-ca FILE" in refusal(flags=beyond)
    load(flags={**beyond, **TLS, "tls.peers_ca": "ca.crt"})
    mixed = {**beyond, **TLS, "tls.peers_ca": "ca.crt", "tls.peers_mode": "both"}
    assert "--tls-peers-ca FILE" in refusal(flags=mixed)
    load(flags={**mixed, "insecure": True})


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"tls.certificate": "server.crt"}, "--tls-key FILE"),
        ({"tls.client_ca": "ca.crt"}, "tls.client_ca needs tls.certificate"),
        ({"tls.directory": "more"}, "tls.directory needs tls.certificate"),
        ({"tls.peers_ca": "ca.crt"}, "tls.peers_ca needs a certificate"),
        ({"tls.peers_mode": "both"}, "tls.peers_mode=both needs tls.peers_ca"),
        ({**TLS, "tls.peers_key": "peers.key"}, "tls.peers_certificate and tls.peers_key"),
        ({**TLS, "tls.client_authentication": "optional"}, "--tls-client-ca FILE"),
        ({**TLS, "tls.client_authentication_doors": "kafka=always"}, "none|optional|required"),
        ({**TLS, "tls.client_authentication_doors": "mqtt=none"}, "with a door of"),
        ({**TLS, "tls.doors": "mqtt"}, "there is no door mqtt"),
        ({**TLS, "tls.user_rules": "RULE:x"}, "tls.user_rules"),
        ({"proxy.addresses": "10.0.0.1/8"}, "proxy.addresses"),
        ({"proxy.addresses": "balancer"}, "proxy.addresses"),
        ({"proxy.doors": "mqtt"}, "there is no door mqtt"),
    ],
)
def test_tls_and_balancers_are_set_as_a_whole(flags: dict[str, object], expected: str) -> None:
    assert expected in refusal(flags=flags)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_loopback_needs_no_set_up(host: str) -> None:
    assert load(flags={"kafka": f"{host}:0"}).settings.kafka == f"{host}:0"


def test_listening_everywhere_needs_an_address_for_clients() -> None:
    assert "--advertised-kafka" in refusal(flags={"kafka": "0.0.0.0:9092", "insecure": True})
    everywhere = {"kafka": "0.0.0.0:9092", "insecure": True, "advertised_kafka": "0.0.0.0:9092"}
    assert "no address that clients" in refusal(flags=everywhere)


def test_every_setting_has_a_meaning_and_a_default_that_its_own_reader_accepts() -> None:
    for setting in every_setting():
        assert setting.meaning.endswith("."), setting.name
        assert value_of(Settings(), setting.path) == setting.default
        if setting.default is None:
            continue
        again = load(None, {setting.variable: setting.show(setting.default)}).settings
        assert value_of(again, setting.path) == setting.default, setting.name


def test_the_struct_itself_refuses_unknown_keys() -> None:
    with pytest.raises(msgspec.ValidationError, match="kafak"):
        msgspec.convert({"kafak": "x"}, Settings)


def test_a_cluster_is_named_properly() -> None:
    url = "zk://zoo1:2181,zoo2/longhall"
    settings = load(flags={"coordinator": url, "peers": "127.0.0.1:7092", "node_id": 3, "rack": "r1"}).settings
    assert (settings.coordinator, settings.peers, settings.node_id, settings.rack) == (url, "127.0.0.1:7092", 3, "r1")
    assert "zk://" in refusal(flags={"coordinator": "zoo1:2181"})
    assert "--insecure" in refusal(flags={"coordinator": url, "peers": "10.0.0.1:7092"})
    beyond = {"coordinator": url, "peers": "10.0.0.1:7092", "insecure": True}
    said = refusal(flags=beyond)
    assert "longhall cluster secret make FILE" in said
    assert "--cluster-secret FILE" in said
    assert load(flags={**beyond, "cluster_secret": "file"}).settings.cluster_secret == "file"
    assert "peers" in refusal(flags={"coordinator": url, "peers": "0.0.0.0:7092", "insecure": True})
    assert "node_id" in refusal(flags={"node_id": -1})
    assert "in_sync_min" in refusal(flags={"in_sync_min": 8})
    assert load(flags={"peers": "10.0.0.1:7092"}).settings.coordinator is None  # Nobody listens there.


def test_a_password_of_zookeeper_is_not_for_the_command_line(tmp_path: Path) -> None:
    url = "zk://alice:wonderland@zoo1:2181/hall"
    said = refusal(flags={"coordinator": url})
    assert "--coordinator-auth FILE" in said
    assert "wonderland" not in said
    assert "wonderland" not in refusal(flags={"coordinator": "zk://alice:wonder:land@"})
    file = tmp_path / "settings.toml"
    file.write_text(f'coordinator = "{url}"\n')
    file.chmod(0o640)
    said = refusal(file=str(file))
    assert f"chmod 600 {file}" in said
    assert "wonderland" not in said
    file.chmod(0o600)
    assert load(str(file)).settings.coordinator == url
    assert load(environment={"LONGHALL_COORDINATOR": url}).settings.coordinator == url
    assert "leave out one" in refusal(file=str(file), flags={"coordinator_auth": "file"})
