"""Users from certificates: the names in them, and rules as Kafka writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from longhall.front.certificate_names import (
    CertificateNames,
    NameSource,
    RuleError,
    UserNames,
    names_of,
    names_of_common_name,
    parse_rules,
)

ALICE = CertificateNames("CN=Alice,OU=payments,O=Example", "Alice", "alice.example.org", "alice@example.org", "urn:a")


def certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [(NameOID.ORGANIZATION_NAME, "Example, Inc"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "payments")]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in [*parts, (NameOID.COMMON_NAME, "Alice")]])
    others = [x509.DNSName("alice.example.org"), x509.RFC822Name("alice@example.org")]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(others), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def test_the_distinguished_name_has_the_form_that_kafka_and_rabbitmq_show() -> None:
    names = names_of(certificate())
    assert names is not None
    assert names.distinguished_name == "CN=Alice,OU=payments,O=Example\\, Inc"
    assert names[1:] == ("Alice", "alice.example.org", "alice@example.org", "")
    assert names_of(b"garbage") is None
    assert names_of_common_name("a,b") == CertificateNames("CN=a\\,b", "a,b")


@pytest.mark.parametrize(
    ("source", "rules", "user"),
    [
        ("distinguished_name", "DEFAULT", "CN=Alice,OU=payments,O=Example"),
        ("common_name", "DEFAULT", "Alice"),
        ("dns_name", "RULE:^([^.]*)\\..*$/$1/", "alice"),
        ("email", "RULE:(.*)@example\\.org/$1/U", "ALICE"),
        ("uri", "DEFAULT", "urn:a"),
        ("distinguished_name", "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L, DEFAULT", "alice@payments"),
        ("distinguished_name", "RULE:^CN=(.*?),OU=sales,.*$/$1/L,RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("distinguished_name", "RULE:^CN=(.*?),OU=sales,.*$/$1/L", ""),  # No rule, no user.
        ("distinguished_name", "RULE:Alice/x/", ""),  # A pattern has to match the whole name.
    ],
)
def test_the_first_rule_that_matches_names_the_user(source: NameSource, rules: str, user: str) -> None:
    assert UserNames(source, rules).user_of(ALICE) == user


def test_a_slash_in_a_pattern_is_escaped() -> None:
    assert UserNames("uri", "RULE:spiffe:\\/\\/org\\/(.*)/$1/").user_of(ALICE._replace(uri="spiffe://org/bob")) == "bob"


def test_a_name_that_is_too_long_or_missing_names_nobody() -> None:
    assert UserNames("common_name").user_of(CertificateNames("O=x")) == ""
    assert UserNames("common_name").user_of(CertificateNames("CN=x", "x" * 2000)) == ""


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "default",
        "RULE:abc",
        "RULE:abc/def",
        "RULE:(/x/",
        "RULE:a/$1/",
        "DEFAULT DEFAULT",
        ",".join(["DEFAULT"] * 65),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(rules: str) -> None:
    with pytest.raises(RuleError):
        parse_rules(rules)
