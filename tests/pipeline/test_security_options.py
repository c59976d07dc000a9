"""Options of TLS and logins: Kafka's names, and refusals of what would have no effect."""

from __future__ import annotations

import pytest

from longhall.client.login import Login
from longhall.client.security import ClientSecurity, security_of_environment
from longhall.client.tls import ClientTls
from longhall.pipeline.options import read_options
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.security_options import connection_options, read_security
from longhall.pipeline.sink_options import read_sink_options

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a \\"b\\" c";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username=alice password='s=1';"
SECRET = "hush-hush"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CA", "CLIENT_CERTIFICATE", "CLIENT_KEY", "USER", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"LONGHALL_{name}", raising=False)


def kafka(**options: str) -> dict[str, str]:
    return {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}


def test_the_login_of_jaas_as_java_clients_have_it() -> None:
    sasl = kafka(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)
    assert read_security(sasl) == ClientSecurity(None, Login("alice", 'a "b" c', "PLAIN"))
    sasl = kafka(security_protocol="sasl_plaintext", sasl_mechanism="scram-sha-512", sasl_jaas_config=SCRAM)
    assert read_security(sasl) == ClientSecurity(None, Login("alice", "s=1", "SCRAM-SHA-512"))


def test_user_and_files_as_librdkafka_names_them() -> None:
    options = kafka(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="alice",
        sasl_password=SECRET,
        ssl_ca_location="/ca.crt",
        ssl_certificate_location="/a.crt",
        ssl_key_location="/a.key",
    )
    tls = ClientTls("/ca.crt", "/a.crt", "/a.key")
    assert read_security(options) == ClientSecurity(tls, Login("alice", SECRET, "SCRAM-SHA-256"))


def test_stores_in_pem() -> None:
    options = kafka(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_location="/me.pem",
        ssl_endpoint_identification_algorithm="",
    )
    assert read_security(options) == ClientSecurity(ClientTls("/ca.pem", "/me.pem", "/me.pem", checks_host=False))
    assert read_security(kafka(security_protocol="SSL")) == ClientSecurity(ClientTls())
    assert read_security(kafka(security_protocol="PLAINTEXT")) == ClientSecurity()


def test_source_and_sink_take_them() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | kafka(security_protocol="SSL")
    assert read_options(options, streaming=False).security == ClientSecurity(ClientTls())
    assert read_sink_options(options, streaming=False, overwrite=False).security == ClientSecurity(ClientTls())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (kafka(security_protocol="TLS"), "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        (kafka(ssl_ca_location="/ca.crt"), "kafka.security.protocol is missing"),
        (kafka(security_protocol="PLAINTEXT", ssl_ca_location="/ca.crt"), "kafka.ssl.ca.location has no effect"),
        (kafka(security_protocol="SSL", sasl_mechanism="PLAIN"), "kafka.sasl.mechanism has no effect"),
        (kafka(security_protocol="SASL_SSL"), "kafka.sasl.mechanism is missing"),
        (kafka(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI"), "SCRAM-SHA-512"),
        (kafka(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER"), "token as the password"),
        (kafka(security_protocol="SASL_SSL", sasl_mechanism="PLAIN"), "password is missing"),
        (kafka(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=SCRAM), "PlainLoginModule"),
        (kafka(security_protocol="SSL", ssl_truststore_type="JKS"), "only PEM"),
        (kafka(security_protocol="SSL", ssl_keystore_key="-----BEGIN"), "kafka.ssl.keystore.location"),
        (kafka(security_protocol="SSL", ssl_protocol="TLSv1.3"), "no effect"),
        (kafka(security_protocol="SSL", ssl_endpoint_identification_algorithm="ldap"), "it is https"),
    ],
)
def test_what_has_no_effect_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        read_security(options)


@pytest.mark.parametrize("jaas", [f"password={SECRET}", f'X required username="a" password="{SECRET}', "; ;"])
def test_a_wrong_jaas_configuration_is_not_repeated(jaas: str) -> None:
    with pytest.raises(PipelineError) as refused:
        read_security(kafka(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=jaas))
    assert SECRET not in str(refused.value)


def test_the_environment_counts_where_options_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_security({}) == ClientSecurity()
    assert connection_options("h:1") == {"kafka.bootstrap.servers": "h:1"}
    monkeypatch.setenv("LONGHALL_CA", "/ca.crt")
    monkeypatch.setenv("LONGHALL_USER", "alice")
    monkeypatch.setenv("LONGHALL_PASSWORD", SECRET)
    assert read_security({}) == ClientSecurity(ClientTls("/ca.crt"), Login("alice", SECRET))
    assert read_security(kafka(security_protocol="PLAINTEXT")) == ClientSecurity()
    login = Login("alice", SECRET, "SCRAM-SHA-256")
    assert read_security(connection_options("h:1")) == ClientSecurity(ClientTls("/ca.crt"), login)
    monkeypatch.setenv("LONGHALL_TOKEN", "lht_1")
    assert read_security(connection_options("h:1")).login == Login("alice", "lht_1", "PLAIN")


def test_secrets_are_not_printed() -> None:
    security = ClientSecurity(None, Login("alice", SECRET))
    assert SECRET not in f"{security} {security!r} {security.login}"
    environment: dict[str, str] = {}
    security.export(environment)
    assert security_of_environment(environment) == security
