"""An identity provider for tests: keys of each kind, and tokens that they sign."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER = "https://login.example.org"
AUDIENCE = "longhall"


def text(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(number: int) -> str:
    return text(number.to_bytes((number.bit_length() + 7) // 8, "big"))


class SigningKey:
    """A key of the provider, and its public half as a JSON Web Key."""

    def __init__(self, algorithm: str, key_id: str = "one", bits: int = 2048) -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self._key: Any
        if algorithm[:2] in ("RS", "PS"):
            self._key = rsa.generate_private_key(65537, bits)
        elif algorithm == "EdDSA":
            self._key = ed25519.Ed25519PrivateKey.generate()
        else:
            self._key = ec.generate_private_key(
                {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}[algorithm]
            )

    def public(self, **more: str) -> dict[str, str]:
        """The entry of the key set."""
        return {"kid": self.key_id, "use": "sig", **self._numbers(), **more}

    def _numbers(self) -> dict[str, str]:
        if self.algorithm[:2] in ("RS", "PS"):
            numbers = self._key.public_key().public_numbers()
            return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        if self.algorithm == "EdDSA":
            return {"kty": "OKP", "crv": "Ed25519", "x": text(self._key.public_key().public_bytes_raw())}
        numbers = self._key.public_key().public_numbers()
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[self.algorithm]
        return {"kty": "EC", "crv": curve, "x": _number(numbers.x), "y": _number(numbers.y)}

    def token(self, claims: dict[str, Any], **header: Any) -> str:
        """A signed token with these claims."""
        head = {"alg": self.algorithm, "kid": self.key_id, "typ": "JWT", **header}
        signed = f"{text(json.dumps(head).encode())}.{text(json.dumps(claims).encode())}"
        return f"{signed}.{text(self._sign(signed.encode()))}"

    def _sign(self, data: bytes) -> bytes:
        if self.algorithm == "EdDSA":
            return bytes(self._key.sign(data))
        digest = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[self.algorithm[2:]]
        if self.algorithm[:2] == "RS":
            return bytes(self._key.sign(data, padding.PKCS1v15(), digest))
        if self.algorithm[:2] == "PS":
            salted = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
            return bytes(self._key.sign(data, salted, digest))
        half = (self._key.curve.key_size + 7) // 8
        numbers = decode_dss_signature(self._key.sign(data, ec.ECDSA(digest)))
        return b"".join(number.to_bytes(half, "big") for number in numbers)


def claims(now_s: float, **changed: Any) -> dict[str, Any]:
    """Claims that are accepted now, unless they are changed; None leaves one out."""
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now_s + 600, "iat": now_s, **changed}
    return {name: value for name, value in made.items() if value is not None}
