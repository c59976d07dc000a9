"""The options of TLS and logins, with the names of Kafka's clients: `kafka.security.protocol`, `kafka.sasl.*`,
`kafka.ssl.*`.

Files are PEM, and are read where a connection is opened: every executor needs them at the same path. Names of
librdkafka (`kafka.ssl.ca.location`, `kafka.sasl.username`) are taken as well as those of the Java client. An option of
these three families that has no effect here is refused, because a job that believes in it would be less safe than it
says. Without any of them the environment of the driver counts (`client/security.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from longhall.client.login import MECHANISMS, PLAIN, Login
from longhall.client.security import ClientSecurity, security_of_environment
from longhall.client.tls import ClientTls
from longhall.pipeline.refusals import PipelineError

PROTOCOL: Final = "kafka.security.protocol"
JAAS: Final = "kafka.sasl.jaas.config"

_PROTOCOLS: Final = {  # TLS, login
    "plaintext": (False, False),
    "ssl": (True, False),
    "sasl_plaintext": (False, True),
    "sasl_ssl": (True, True),
}
_FAMILIES: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
_KNOWN: Final = {
    PROTOCOL,
    "kafka.sasl.mechanism",
    JAAS,
    "kafka.sasl.username",
    "kafka.sasl.password",
    "kafka.ssl.truststore.type",
    "kafka.ssl.truststore.location",
    "kafka.ssl.keystore.type",
    "kafka.ssl.keystore.location",
    "kafka.ssl.ca.location",
    "kafka.ssl.certificate.location",
    "kafka.ssl.key.location",
    "kafka.ssl.endpoint.identification.algorithm",
}
_ADVICE: Final = {
    "kafka.ssl.key.password": "keys must not be encrypted; protect the file by its mode (600)",
    "kafka.ssl.truststore.password": "name a file in PEM, which has no password",
    "kafka.ssl.keystore.password": "name a file in PEM, which has no password",
    "kafka.ssl.truststore.certificates": "write the certificates to a file, for kafka.ssl.truststore.location",
    "kafka.ssl.keystore.certificate.chain": "write it with the key to a file, for kafka.ssl.keystore.location",
    "kafka.ssl.keystore.key": "write it with the certificate to a file, for kafka.ssl.keystore.location",
}
_MODULE: Final = re.compile(r"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_FIELD: Final = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def read_security(given: Mapping[str, str]) -> ClientSecurity:
    """The security that options name; that of the environment if they name none. Raises PipelineError."""
    options = {name.lower(): str(value).strip() for name, value in given.items()}
    own = [name for name in options if name.startswith(_FAMILIES)]
    if not own:
        return security_of_environment()
    for name in own:
        if name not in _KNOWN:
            raise PipelineError(f"the option {name} is not supported: {_ADVICE.get(name, 'it would have no effect')}")
    protocol = options.get(PROTOCOL, "")
    if protocol.lower() not in _PROTOCOLS:
        said = f"is {protocol!r}" if protocol else "is missing"
        raise PipelineError(f"the option {PROTOCOL} {said}; it is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    has_tls, has_login = _PROTOCOLS[protocol.lower()]
    for family, wanted in (("kafka.ssl.", has_tls), ("kafka.sasl.", has_login)):
        idle = next((name for name in own if name.startswith(family)), None)
        if idle is not None and not wanted:
            raise PipelineError(f"the option {idle} has no effect with {PROTOCOL}={protocol}")
    return ClientSecurity(_tls(options) if has_tls else None, _login(options) if has_login else None)


def connection_options(bootstrap: str) -> dict[str, str]:
    """The options of a job that reads or writes through `format("longhall")`: address, and the security of the
    driver's environment, which the processes of a session that is running already do not have.
    """
    options = {"kafka.bootstrap.servers": bootstrap}
    security = security_of_environment()
    tls, login = security.tls, security.login
    if tls is None and login is None:
        return options
    options[PROTOCOL] = ("SASL_" if login is not None else "") + ("SSL" if tls is not None else "PLAINTEXT")
    if tls is not None:
        files = (tls.ca, tls.certificate, tls.key)
        for name, value in zip(("ca", "certificate", "key"), files, strict=True):
            if value:
                options[f"kafka.ssl.{name}.location"] = value
    if login is not None:
        options["kafka.sasl.mechanism"] = login.chosen_mechanism
        options["kafka.sasl.username"] = login.user
        options["kafka.sasl.password"] = login.password  # Spark does not print options of this name.
    return options


def _tls(options: Mapping[str, str]) -> ClientTls:
    for store in ("truststore", "keystore"):
        kind = options.get(f"kafka.ssl.{store}.type", "PEM")
        if kind.upper() != "PEM":
            raise PipelineError(f"the option kafka.ssl.{store}.type is {kind!r}; only PEM can be read here")
    algorithm = options.get("kafka.ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "none", ""):
        raise PipelineError(
            f"the option kafka.ssl.endpoint.identification.algorithm is {algorithm!r}; it is https, or empty"
        )
    store = options.get("kafka.ssl.keystore.location", "")  # One file with the certificate and its key.
    return ClientTls(
        options.get("kafka.ssl.truststore.location") or options.get("kafka.ssl.ca.location", ""),
        options.get("kafka.ssl.certificate.location") or store,
        options.get("kafka.ssl.key.location") or store,
        algorithm == "https",
    )


def _login(options: Mapping[str, str]) -> Login:
    mechanism = options.get("kafka.sasl.mechanism", "").upper()
    if mechanism == "OAUTHBEARER":
        raise PipelineError(
            "the option kafka.sasl.mechanism is OAUTHBEARER, which would need a renewed token in every task; "
            "take PLAIN with the token as the password, or a user of its own for the job"
        )
    if mechanism not in MECHANISMS:
        said = f"is {mechanism!r}" if mechanism else "is missing"
        raise PipelineError(f"the option kafka.sasl.mechanism {said}; it is one of {', '.join(MECHANISMS)}")
    user, password = options.get("kafka.sasl.username"), options.get("kafka.sasl.password")
    if JAAS in options:
        fields = _jaas(options[JAAS], mechanism)
        user, password = fields.get("username", user), fields.get("password", password)
    if not password or user is None:
        raise PipelineError(f"the user or its password is missing: give {JAAS}, or kafka.sasl.username and .password")
    return Login(user, password, mechanism)


def _jaas(text: str, mechanism: str) -> dict[str, str]:
    """The fields of `...LoginModule required username="alice" password="secret";`. Its text is never repeated: it has
    the password.
    """
    module = _MODULE.fullmatch(text)
    fields: dict[str, str] = {}
    if module is not None:
        rest, at = module.group(1).rstrip().removesuffix(";"), 0
        while rest[at:].strip():
            found = _FIELD.match(rest, at)
            if found is None:
                break
            value = next(part for part in found.groups()[1:] if part is not None)
            fields[found.group(1)] = re.sub(r"\\(.)", r"\1", value)
            at = found.end()
        else:
            wanted = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
            if wanted in text.split("required")[0]:
                return fields
            raise PipelineError(f"the option {JAAS} has another login module than {mechanism} needs: {wanted}")
    raise PipelineError(
        f"the option {JAAS} must look like "
        '`org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";`'
    )
