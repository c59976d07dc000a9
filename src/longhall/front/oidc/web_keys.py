"""The public keys of an identity provider: a JSON Web Key Set (RFC 7517), and signatures that they verify (RFC 7518).

    kty    crv                    algorithms
    RSA    -                      RS256 RS384 RS512 PS256 PS384 PS512, with at least 2,048 bits
    EC     P-256 P-384 P-521      ES256, ES384, ES512
    OKP    Ed25519                EdDSA

Keys of other kinds, and those for encryption, are left out. Shared secrets (HS256) and `none` are never accepted: a
public key must not be usable to sign.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

KEYS_MAX: Final = 64
RSA_BITS_MIN: Final = 2_048
RSA_BITS_MAX: Final = 8_192

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

_RSA: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "RS256": hashes.SHA256(),
    "RS384": hashes.SHA384(),
    "RS512": hashes.SHA512(),
    "PS256": hashes.SHA256(),
    "PS384": hashes.SHA384(),
    "PS512": hashes.SHA512(),
}
_CURVES: Final[Mapping[str, ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
_EC: Final[Mapping[str, tuple[str, hashes.HashAlgorithm]]] = {  # The name of the curve, and the hash.
    "ES256": ("secp256r1", hashes.SHA256()),
    "ES384": ("secp384r1", hashes.SHA384()),
    "ES512": ("secp521r1", hashes.SHA512()),
}
EDDSA: Final = "EdDSA"
ALGORITHMS: Final = frozenset((*_RSA, *_EC, EDDSA))


class WebKey(NamedTuple):
    """One key: its id, which may be empty, the only algorithm that it is for (empty: any), and the key itself."""

    key_id: str
    algorithm: str
    public: PublicKey


@final
class WebKeySet:
    """The keys that an identity provider publishes."""

    def __init__(self, keys: list[WebKey]) -> None:
        self.keys = keys

    def candidates(self, key_id: str, algorithm: str) -> list[WebKey]:
        """The keys that a token may be signed with: those of its key id or, if it names none, all that fit."""
        return [
            key
            for key in self.keys
            if (not key_id or key.key_id == key_id)
            and key.algorithm in ("", algorithm)
            and _fits(key.public, algorithm)
        ]


def read_key_set(document: Mapping[str, Any]) -> WebKeySet:
    """The usable keys of a key set. ValueError if it is none, or has too many."""
    entries = document.get("keys")
    if not isinstance(entries, list):
        raise ValueError("the key set has no 'keys'")
    if len(entries) > KEYS_MAX:
        raise ValueError(f"the key set has {len(entries)} keys, and at most {KEYS_MAX} are read")
    keys: list[WebKey] = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        public = _public_key(entry)
        if public is not None:
            keys.append(WebKey(str(entry.get("kid", "")), str(entry.get("alg", "")), public))
    if not keys:
        raise ValueError("the key set has no key that verifies signatures")
    return WebKeySet(keys)


def is_signed(key: WebKey, algorithm: str, signature: bytes, signed: bytes) -> bool:
    """True if the key made this signature."""
    public = key.public
    try:
        if isinstance(public, rsa.RSAPublicKey):
            digest = _RSA[algorithm]
            salted = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
            public.verify(signature, signed, salted if algorithm.startswith("PS") else padding.PKCS1v15(), digest)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            half = (public.curve.key_size + 7) // 8
            if len(signature) != 2 * half:
                return False
            numbers = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
            public.verify(encode_dss_signature(*numbers), signed, ec.ECDSA(_EC[algorithm][1]))
        else:
            public.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def decode_base64url(text: str) -> bytes:
    """Base64url without padding, as JSON Web Tokens have it. ValueError if it is none."""
    if not text.isascii() or "=" in text or "+" in text or "/" in text:
        raise ValueError("not base64url")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _fits(public: PublicKey, algorithm: str) -> bool:
    if isinstance(public, rsa.RSAPublicKey):
        return algorithm in _RSA
    if isinstance(public, ec.EllipticCurvePublicKey):
        return algorithm in _EC and _EC[algorithm][0] == public.curve.name
    return algorithm == EDDSA


def _public_key(entry: Mapping[str, Any]) -> PublicKey | None:
    """The key of an entry; None if it is of another kind, too weak, or malformed."""
    try:
        if entry.get("kty") == "RSA":
            modulus, exponent = _number(entry["n"]), _number(entry["e"])
            if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX:
                return None
            return rsa.RSAPublicNumbers(exponent, modulus).public_key()
        if entry.get("kty") == "EC":
            curve = _CURVES[entry["crv"]]
            return ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve).public_key()
        if entry.get("kty") == "OKP" and entry.get("crv") == "Ed25519":
            return ed25519.Ed25519PublicKey.from_public_bytes(decode_base64url(entry["x"]))
    except (KeyError, TypeError, ValueError, AttributeError, UnsupportedAlgorithm):
        return None
    return None


def _number(text: str) -> int:
    return int.from_bytes(decode_base64url(text), "big")
