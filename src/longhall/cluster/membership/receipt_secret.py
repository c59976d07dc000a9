"""The secret that receipts are keyed with: how all nodes of a cluster come to have the same one.

    below level 4     the coordinator's record has it, and a node that joins reads it there
    from level 4 on   the record has only its digest. The node that makes the record makes the secret and first writes
                      it to its directory; a node that joins asks another node for it, over an authenticated
                      connection, and accepts a secret that has the digest

When the level is raised, the leader removes the secret from the record. Every directory has the secret, so a record
that is rebuilt after the coordinator lost its data has the same one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from longhall.broker.feature_gates import RECEIPT_SECRET_LEVEL
from longhall.broker.recovery import Identity
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.wire import decode
from longhall.coordination.ports import Conflict, Coordinator, OutcomeUnknown, ShardState
from longhall.errors import LonghallError
from longhall.names import CATALOGUE_SHARD

VERB: Final = "receipt-secret"
SECRET: Final = "secret"
DIGEST: Final = "secret_sha256"
ANSWER_S: Final = 2.0
PAUSE_S: Final = 0.1
REMINDER_S: Final = 10.0

_log = logging.getLogger("longhall.join")


class SecretReply(msgspec.Struct, kw_only=True):
    """The secret, as a node sends it to one that joins."""

    secret: str


def digest_of(secret: str) -> str:
    """The digest of the secret. It does not reveal the secret, which has 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def on_record(secret: str, level: int) -> dict[str, object]:
    """The fields of the record for the secret at this feature level."""
    return {SECRET: secret} if level < RECEIPT_SECRET_LEVEL else {DIGEST: digest_of(secret)}


def from_record(more: Mapping[str, object], own: str) -> str | None:
    """The secret of the cluster: the record's, or `own` if it has the recorded digest. Empty if another node has to be
    asked for it, None if the record has neither.
    """
    secret, digest = more.get(SECRET), more.get(DIGEST)
    if isinstance(secret, str):
        return secret
    if not isinstance(digest, str):
        return None
    return own if own and digest_of(own) == digest else ""


def serve_secret(peers: Peers, secret: str) -> None:
    """Serve the secret to nodes that join."""

    async def reply(node: int, body: bytes) -> bytes:
        return msgspec.msgpack.encode(SecretReply(secret=secret))

    peers.serve(VERB, reply)


async def learn_secret(coordinator: Coordinator, peers: Peers, own: Identity, save: Callable[[Identity], None]) -> str:
    """Ask the live nodes until one has the secret whose digest is on record. The only replica of a record under which
    no node has ever led records the digest of `own` instead: the first secret is lost, and keyed no receipts.
    """
    loop = asyncio.get_running_loop()
    reminded_s = loop.time()
    while True:
        state = await coordinator.shard(CATALOGUE_SHARD)
        assert state is not None, "it was there a moment ago"
        secret = from_record(state.more, own.secret)
        if secret:
            return secret
        if state.epoch == 0 and state.replicas == (peers.node,):
            save(own)
            await _change(coordinator, state, {**state.more, DIGEST: digest_of(own.secret)})
            continue
        members = await coordinator.members()
        peers.addresses = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
        for node in sorted(members.keys() - {peers.node}):
            answer = await _ask(peers, node)
            if answer and digest_of(answer) == state.more.get(DIGEST):
                return answer
        if loop.time() - reminded_s >= REMINDER_S:
            reminded_s = loop.time()
            _log.warning("no node of the cluster answers with the receipt secret yet; this node waits")
        await asyncio.sleep(PAUSE_S)


async def _ask(peers: Peers, node: int) -> str:
    try:
        return decode(await peers.request(node, VERB, b"", ANSWER_S), SecretReply).secret
    except (OSError, TimeoutError, LonghallError) as error:
        _log.debug("a node did not send the receipt secret", extra={"from": node, "reason": str(error)})
        return ""


async def withdraw_secret(coordinator: Coordinator) -> None:
    """Remove the secret from the record; its digest stays."""
    state = await coordinator.shard(CATALOGUE_SHARD)
    secret = state.more.get(SECRET) if state is not None else None
    if state is not None and isinstance(secret, str):
        rest = {name: value for name, value in state.more.items() if name != SECRET}
        if await _change(coordinator, state, {**rest, DIGEST: digest_of(secret)}):
            _log.info("the receipt secret was removed from the coordinator's record")


async def _change(coordinator: Coordinator, state: ShardState, more: dict[str, object]) -> bool:
    try:
        await coordinator.change_shard(state, msgspec.structs.replace(state, more=more))
    except (Conflict, OutcomeUnknown):
        return False  # The caller reads again.
    return True
