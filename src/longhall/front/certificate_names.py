"""From a client's certificate to the name of a user.

First a name is taken from the certificate: its distinguished name (RFC 4514: "CN=alice,OU=payments,O=Example"), its
common name, or its alternative name of one type. Then rules, in the notation of Kafka's ssl.principal.mapping.rules,
make the user's name of it:

    RULE:^CN=(.*?),OU=payments.*$/$1/L    if the whole name matches: the replacement, in lower case (U: upper case)
    DEFAULT                               the name as it is

The first rule that matches wins; a name that no rule matches is no user. Pure: whether the certificate was verified is
decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, final

NAME_BYTES_MAX: Final = 1024
RULES_MAX: Final = 64

NameSource = Literal["distinguished_name", "common_name", "dns_name", "email", "uri"]

_REFERENCE: Final = re.compile(r"\$(\d)")


class RuleError(ValueError):
    """A text that is no list of rules."""


class CertificateNames(NamedTuple):
    """The names in one certificate."""

    distinguished_name: str
    common_name: str = ""
    dns_name: str = ""  # The first alternative name of each type.
    email: str = ""
    uri: str = ""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None for DEFAULT.
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        user = _REFERENCE.sub(lambda number: _group(found, int(number[1])), self.replacement)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


@final
class UserNames:
    """The rules of a node."""

    def __init__(self, source: NameSource = "distinguished_name", rules: str = "DEFAULT") -> None:
        """Raises RuleError."""
        self._source: NameSource = source
        self._rules = parse_rules(rules)

    def user_of(self, names: CertificateNames) -> str:
        """The user whom a certificate names; empty if it names none."""
        name = str(getattr(names, self._source))
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            return ""
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                return user
        return ""


def parse_rules(text: str) -> list[_Rule]:
    """Parse a list of rules with commas between them. RuleError says which one is wrong."""
    rules: list[_Rule] = []
    rest = text.strip()
    while rest:
        if len(rules) == RULES_MAX:
            raise RuleError(f"there are more than {RULES_MAX} rules")
        rule, rest = _parse_rule(rest)
        rules.append(rule)
        rest = rest.strip()
        if rest and not rest.startswith(","):
            raise RuleError(f"write a comma between rules, before {rest[:40]!r}")
        rest = rest[1:].strip()
    if not rules:
        raise RuleError("there is no rule; DEFAULT takes the name as it is")
    return rules


def _parse_rule(text: str) -> tuple[_Rule, str]:
    if text.startswith("DEFAULT"):
        return _Rule(None, "", ""), text.removeprefix("DEFAULT")
    if not text.startswith("RULE:"):
        raise RuleError(f"{text[:40]!r} is no rule; write DEFAULT or RULE:pattern/replacement/[LU]")
    pattern, rest = _until_slash(text.removeprefix("RULE:"), text)
    replacement, rest = _until_slash(rest, text)
    case = rest[:1] if rest[:1] in ("L", "U") else ""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise RuleError(f"{text[:40]!r}: {error}") from None
    if any(int(number) > compiled.groups for number in _REFERENCE.findall(replacement)):
        raise RuleError(f"{text[:40]!r}: the replacement names a group that the pattern does not have")
    return _Rule(compiled, replacement, case), rest[len(case) :]


def _until_slash(text: str, rule: str) -> tuple[str, str]:
    """The text before the next slash that no backslash precedes, and the text behind it."""
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "/":
            return text[:at].replace("\\/", "/"), text[at + 1 :]
        at += 1
    raise RuleError(f"{rule[:40]!r} is incomplete; write RULE:pattern/replacement/[LU]")


def _group(found: re.Match[str], number: int) -> str:
    return found[number] or ""


def names_of(der: bytes) -> CertificateNames | None:
    """The names in a certificate; None if it cannot be read."""
    from cryptography import x509  # Here: a node without client certificates does not need it.

    try:
        certificate = x509.load_der_x509_certificate(der)
        subject = certificate.subject
        common = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        try:
            others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            others = x509.SubjectAlternativeName([])
        return CertificateNames(
            subject.rfc4514_string(),
            str(common[-1].value) if common else "",
            _first(others.get_values_for_type, x509.DNSName),
            _first(others.get_values_for_type, x509.RFC822Name),
            _first(others.get_values_for_type, x509.UniformResourceIdentifier),
        )
    except ValueError:
        return None


def names_of_common_name(common_name: str) -> CertificateNames:
    """The names that are known if a balancer has passed on the common name alone."""
    escaped = re.sub(r'([,+"\\<>;=])', r"\\\1", common_name)
    return CertificateNames(f"CN={escaped}", common_name)


def _first(values: Callable[..., list[str]], kind: type) -> str:
    found = values(kind)
    return found[0] if found else ""
