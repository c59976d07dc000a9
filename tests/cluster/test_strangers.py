"""Unauthenticated processes at the peer ports of real nodes get nothing, change nothing and are counted.

Secrets are not disclosed, and can be replaced under load.
"""

from __future__ import annotations

import json
import re
import shutil
import stat
import urllib.request
from pathlib import Path

import pytest

from longhall.cli.cluster.secret import SECRET_NAME
from longhall.cluster.membership.receipt_secret import DIGEST, SECRET, digest_of
from longhall.cluster.rpc.authentication import REFUSED
from longhall.cluster.rpc.wire import CHALLENGE, REFUSAL, Refusal, decode_answer, encode
from longhall.coordination.ensemble import Ensemble
from longhall.coordination.ports import CoordinationError, ShardState
from longhall.coordination.zookeeper import zookeeper_coordinator
from longhall.errors import Code
from longhall.names import CATALOGUE_SHARD
from soak import stranger
from soak.cluster import NODES, Cluster
from soak.node import Node
from soak.stranger import Frame
from tests.cluster.load import Load

UNIFORM = encode(REFUSAL, Refusal(reason=REFUSED))[5:]


def peers_of(cluster: Cluster, number: int) -> str:
    return str(cluster.nodes[number].ready["peers"])


def hall_of(cluster: Cluster) -> str:
    view = cluster.view()
    assert view is not None
    return view.hall


def secret_of(cluster: Cluster, number: int) -> bytes:
    return cluster.secret_file(number).read_text().split()[0].encode()


def refusals(cluster: Cluster, number: int) -> int:
    with urllib.request.urlopen(f"http://{cluster.nodes[number].http}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(int(float(n)) for n in re.findall(r"^longhall_cluster_peers_refused_total\{.*\} (\S+)$", text, re.M))


def check_heard(heard: list[Frame], hall: str) -> None:
    """Only challenges and the refusal that every process gets, and nothing about the cluster."""
    assert all(kind == CHALLENGE or body == UNIFORM for kind, body in heard), heard
    assert not any(hall.encode() in body for _, body in heard)


def test_an_unauthenticated_peer_gets_nothing_changes_nothing_and_is_counted(cluster: Cluster) -> None:
    hall, before = hall_of(cluster), cluster.view()
    assert before is not None
    load = Load(cluster, "strangers", cluster.followers()[0])
    load.start()
    for number in NODES:
        address, member = peers_of(cluster, number), NODES[number % len(NODES)]
        recorded, welcome, _ = stranger.conversation(address, secret_of(cluster, number), hall, stranger.NOBODY, number)
        assert welcome, "a process with the secret is accepted, so the refusals below are due to the secret"
        attempts = {
            "plain": stranger.plain,
            "guessed": stranger.guessed,
            "reflected": stranger.reflected,
            "garbage": stranger.garbage,
            "another hall": stranger.of_another_cluster(secret_of(cluster, number)),
            "another secret": stranger.of_another_cluster(stranger.GUESSED),
            "replayed": stranger.replayed(recorded),
        }
        for name, attempt in attempts.items():
            counted = refusals(cluster, number)
            check_heard(attempt(address, hall, member), hall)
            assert refusals(cluster, number) > counted, f"{name} at node {number} was not counted"
        load.wait_for_more()
    after = cluster.view()
    assert after is not None
    assert (after.leader, after.epoch) == (before.leader, before.epoch)
    assert all(host.in_sync for host in after.hosts)
    load.stop()
    load.check(before.leader)
    assert load.misses == []


@pytest.mark.parametrize("verb", ["refetch-begin", "refetch-read", "copies-read"])
def test_an_unknown_node_gets_no_data(cluster: Cluster, verb: str) -> None:
    leader = cluster.leader()
    hall, secret, address = hall_of(cluster), secret_of(cluster, leader), peers_of(cluster, leader)
    _, welcome, answer = stranger.conversation(address, secret, hall, stranger.NOBODY, leader, verb)
    assert welcome
    number, code, sentence = decode_answer(answer)
    assert (number, code) == (1, Code.NOT_READY)
    assert sentence.decode() == f"{verb} is for members, and node {stranger.NOBODY} is not known here as one"


def test_the_secret_is_replaced_under_load_without_a_failed_request(cluster: Cluster) -> None:
    hall, leader = hall_of(cluster), cluster.leader()
    asked, restarted = cluster.followers()
    old, new = secret_of(cluster, leader).decode(), "fresh" * 10
    load = Load(cluster, "rotating", asked)
    load.start()
    for step in ([old, new], [new, old], [new]):
        cluster.write_secrets(leader, step, tell=True)
        if step[0] == new:  # A node that starts now meets nodes with the old file and with the new one.
            assert cluster.nodes[restarted].stop() == 0
            cluster.nodes[restarted].start()
            cluster.wait_in_sync()
        cluster.write_secrets(restarted, step, tell=True)
        cluster.write_secrets(asked, step)
        load.wait_for_more()
    load.stop()
    load.check(asked)
    assert load.misses == []
    for number in NODES:
        address = peers_of(cluster, number)
        assert not stranger.conversation(address, old.encode(), hall, stranger.NOBODY, number)[1]
        assert stranger.conversation(address, new.encode(), hall, stranger.NOBODY, number)[1]
    (cluster.home / SECRET_NAME).write_text(new + "\n")  # For nodes of later tests.


async def record_at(url: str) -> ShardState | None:
    coordinator = zookeeper_coordinator(url)
    try:
        await coordinator.start()
        return await coordinator.shard(CATALOGUE_SHARD)
    finally:
        await coordinator.close()


async def test_the_receipt_secret_is_not_readable_by_others(cluster: Cluster) -> None:
    """A node that has lost its directory gets the secret from another node, and ZooKeeper does not have it."""
    lost = cluster.followers()[0]
    node = cluster.nodes[lost]
    secret = json.loads((node.data / "longhall.json").read_text())["secret"]
    state = await record_at(cluster.zookeeper.url + "/whole")
    assert state is not None
    assert SECRET not in state.more
    assert state.more[DIGEST] == digest_of(secret)
    assert node.stop() == 0
    shutil.rmtree(node.data)
    node.start()
    cluster.wait_in_sync()
    assert json.loads((node.data / "longhall.json").read_text())["secret"] == secret
    for number in NODES:
        check_private(cluster.nodes[number].data)


def check_private(data: Path) -> None:
    files = [data / name for name in ("longhall.json", "member.json")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, *files)] == [0o700, 0o600, 0o600]


def test_a_file_that_others_could_read_is_tightened_at_the_start(cluster: Cluster) -> None:
    node = cluster.nodes[cluster.followers()[0]]
    assert node.stop() == 0
    for name in ("longhall.json", "member.json"):
        (node.data / name).chmod(0o644)
    node.start()
    cluster.wait_in_sync()
    check_private(node.data)


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_secret_that_others_can_read_is_refused(cluster: Cluster, mode: int) -> None:
    stray = cluster.make(7)
    cluster.secret_file(7).chmod(mode)
    stray.launch()
    assert stray.wait_end() == 1
    assert f"chmod 600 {cluster.secret_file(7)}" in stray.log_tail()


async def test_the_zookeeper_credentials_are_read_from_a_file(ensemble: Ensemble, tmp_path: Path) -> None:
    """Its record requires the password, which is on no command line."""
    auth = tmp_path / "auth"
    auth.touch(mode=0o600)
    auth.write_text("digest:alice:wonderland\n")
    url = f"{ensemble.url}/{tmp_path.name}"
    options = ["--coordinator", url, "--coordinator-auth", str(auth), "--set", "in_sync_min=1"]
    with Node(tmp_path / "data", options=options) as node:
        assert "wonderland" not in " ".join(node.command())
        with pytest.raises(CoordinationError, match="--coordinator-auth"):
            await record_at(url)
        assert await record_at(url.replace("zk://", "zk://alice:wonderland@")) is not None
