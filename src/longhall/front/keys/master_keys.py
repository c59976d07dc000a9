"""The master keys that queues and topics may name, each with its provider: the file that the setting `keys` names.

    managed = "orders"                       # The key behind SqsManagedSseEnabled=true; without it nothing is taken.

    [providers.disk]
    kind = "file"
    path = "/etc/longhall/master-keys"       # See `key_file`.

    [providers.aws]
    kind = "aws-kms"
    endpoint = "https://kms.eu-central-1.amazonaws.com"
    region = "eu-central-1"
    credentials = "/etc/longhall/kms-credentials"   # In the format of AWS's tools.

    [providers.vault]
    kind = "vault-transit"
    endpoint = "https://vault:8200"
    token_file = "/run/secrets/vault-token"
    mount = "transit"

    [providers.hsm]
    kind = "command"
    command = ["/usr/local/bin/hsm-keys"]    # See `key_command`.

    [keys]
    orders = { provider = "disk" }
    "alias/orders" = { provider = "aws", id = "arn:aws:kms:eu-central-1:111122223333:key/1234" }

A key that the file does not list does not exist. The file is private: it says where secrets are.
"""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Callable
from typing import Annotated, Final, final

import msgspec
from msgspec import Meta

from longhall.errors import Code, LonghallError
from longhall.front.http_client import HttpEndpoint
from longhall.front.keys.aws_kms import AwsKms
from longhall.front.keys.aws_signature import AwsCredentials
from longhall.front.keys.guard import CALLS_MAX, DEADLINE_S, GuardedProvider
from longhall.front.keys.key_command import KeyCommand
from longhall.front.keys.key_file import KeyFile
from longhall.front.keys.local_wrapping import Randomness
from longhall.front.keys.provider import DataKey, KeyContext, KeyProvider, unknown_key
from longhall.front.keys.vault_transit import VaultTransit

KEYS_MAX: Final = 10_000
PROVIDERS_MAX: Final = 64
NAME_LENGTH_MAX: Final = 2048

ReadFile = Callable[[str], str]  # The text of a private file, by its path.


class _Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    timeout_ms: Annotated[int, Meta(ge=10, le=60_000)] = int(DEADLINE_S * 1000)
    calls_max: Annotated[int, Meta(ge=1, le=256)] = CALLS_MAX


class FileProvider(_Provider, frozen=True, tag="file"):
    """A file of master keys."""

    path: str


class CommandProvider(_Provider, frozen=True, tag="command"):
    """A program that is started for each call."""

    command: Annotated[list[str], Meta(min_length=1)]


class KmsProvider(_Provider, frozen=True, tag="aws-kms"):
    """AWS KMS, or what speaks its API."""

    endpoint: str
    region: str
    credentials: str
    profile: str = "default"
    ca_file: str = ""


class VaultProvider(_Provider, frozen=True, tag="vault-transit"):
    """The transit engine of Vault."""

    endpoint: str
    token_file: str
    mount: str = "transit"
    ca_file: str = ""


class ListedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provider that has a key, and the id of the key there; without one it is the name of the key."""

    provider: str
    id: str = ""


class KeysFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file as it is written."""

    managed: str = ""
    providers: Annotated[
        dict[str, FileProvider | CommandProvider | KmsProvider | VaultProvider], Meta(max_length=PROVIDERS_MAX)
    ]
    keys: Annotated[dict[str, ListedKey], Meta(max_length=KEYS_MAX)]


def read_keys(text: str) -> KeysFile:
    """The contents of the file. INVALID_CONFIGURATION names the place of the fault."""
    try:
        file = msgspec.convert(tomllib.loads(text), KeysFile)
    except tomllib.TOMLDecodeError as error:
        raise _wrong(f"the file is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None
    for name, key in file.keys.items():
        if not 0 < len(name) <= NAME_LENGTH_MAX:
            raise _wrong(f"a name of a key has 1 to {NAME_LENGTH_MAX} characters")
        if key.provider not in file.providers:
            raise _wrong(f"the key '{name}' names the provider '{key.provider}', which the file does not have")
    if file.managed and file.managed not in file.keys:
        raise _wrong(f"managed names the key '{file.managed}', which the file does not list")
    return file


@final
class MasterKeys:
    """The master keys by name. `replace` takes effect for all doors at once; data keys in use are not forgotten."""

    def __init__(
        self,
        file: KeysFile,
        read_file: ReadFile,
        now_s: Callable[[], float],
        timestamp: Callable[[], str],
        randomness: Randomness,
    ) -> None:
        """Raises LonghallError if a file that it names cannot be used."""
        self._read_file = read_file
        self._now_s = now_s
        self._timestamp = timestamp
        self._randomness = randomness
        self.replace(file)

    def replace(self, file: KeysFile) -> None:
        """Make these the only keys. Raises LonghallError if a file that it names cannot be used."""
        providers = {
            name: GuardedProvider(
                name, self._provider(provider), self._now_s, provider.timeout_ms / 1000, provider.calls_max
            )
            for name, provider in file.providers.items()
        }
        self.managed = file.managed
        self._keys = {name: (providers[key.provider], key.id or name) for name, key in file.keys.items()}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    async def generate(self, name: str, context: KeyContext) -> DataKey:
        """A new data key under this master key."""
        provider, key_id = self._find(name)
        return await provider.generate(key_id, context)

    async def unwrap(self, name: str, wrapped: bytes, context: KeyContext) -> bytes:
        """A data key in clear."""
        provider, key_id = self._find(name)
        return await provider.unwrap(key_id, wrapped, context)

    async def rewrap(self, name: str, wrapped: bytes, context: KeyContext) -> bytes:
        """A data key under the newest version of its master key."""
        provider, key_id = self._find(name)
        return await provider.rewrap(key_id, wrapped, context)

    def _find(self, name: str) -> tuple[GuardedProvider, str]:
        found = self._keys.get(name)
        if found is None:
            raise unknown_key(name)
        return found

    def _provider(self, one: FileProvider | CommandProvider | KmsProvider | VaultProvider) -> KeyProvider:
        read_file = self._read_file
        if isinstance(one, FileProvider):
            return KeyFile(lambda: read_file(one.path), self._now_s, self._randomness)
        if isinstance(one, CommandProvider):
            return KeyCommand(one.command)
        endpoint = HttpEndpoint(one.endpoint, one.ca_file)
        if isinstance(one, KmsProvider):
            credentials = _aws_credentials(read_file(one.credentials), one.profile)
            return AwsKms(endpoint, one.region, credentials, self._timestamp)
        return VaultTransit(endpoint, one.mount, lambda: _token(read_file, one.token_file))


def _token(read_file: ReadFile, path: str) -> str:
    try:
        return read_file(path).strip()
    except LonghallError as error:
        raise LonghallError(Code.KEY_UNAVAILABLE, str(error)) from None


def _aws_credentials(text: str, profile: str) -> AwsCredentials:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(text)
        section = parser[profile]
        return AwsCredentials(
            section["aws_access_key_id"], section["aws_secret_access_key"], section.get("aws_session_token", "")
        )
    except (configparser.Error, KeyError):
        raise _wrong(
            f"the credentials of the key service have no profile '{profile}' with a key and a secret"
        ) from None


def _wrong(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, f"keys: {what}")
