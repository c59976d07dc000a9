"""The faults of a real cluster, one after another: each starts, lasts for a while and heals.

The seed decides the order. Faults that the machine does not permit (cuts and full disks need a field, clocks a
compiler) are left out and listed in `left_out`.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from longhall.cluster.rpc.wire import CHALLENGE, REFUSAL
from longhall.node.settings import Settings
from longhall.records.batch import CRC_COVERS_FROM
from longhall.records.header import check_batch
from soak import stranger
from soak.cluster import DISK_BYTES, NODES, ZOOKEEPER, Cluster, name_of
from soak.coordinator_loss import back_up, down, forget, restore
from soak.field import Field, limit_files, resize_memory
from soak.kill import Say
from soak.node import COMMAND
from soak.replicas import is_of_the_load
from soak.stall import MEMORY_SHARE, stall

READY_SECONDS: Final = 90.0
HUNG_SECONDS: Final = 60.0  # Until a watchdog has ended its node.
BEYOND_SECONDS: Final = 2.0  # How much longer than the session a fault lasts that has to outlast it.
LEFT_BYTES: Final = (1 << 20, 64 << 20)  # Free space of a full disk: next to nothing, or less than the reserve.
LEFT_FILES: Final = (1, 12)  # Free inodes when they run out.
SEGMENT_BYTES_MIN: Final = 4096
FAILING_READS_MAX: Final = 6
NOTICED: Final = "a message cannot be read here"
MENDED: Final = "damaged messages were repaired"  # In place, with the batches of another replica.
STALL_SECONDS: Final = (60.0, 90.0)
STALL_BYTES_A_SECOND: Final = 30_000_000
ROTTEN_SEGMENTS: Final = 5  # Of each node.
SCRUBBED_S: Final = 120.0  # Passes start by themselves: the API is closed beyond loopback.
JUMPS_S: Final = (-86_400, -3600, -30, 30, 3600, 86_400)


class Nemesis:
    """Every fault is a method whose docstring describes it; `kills` are those that senders notice first."""

    def __init__(self, cluster: Cluster, seed: int, say: Say) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._say = say
        self._bag: list[Callable[[], None]] = []
        self.on_damage: Callable[[], None] = _nothing  # Reads everything, so that the damaged node notices.
        always: list[Callable[[], None]] = [
            self.kill_the_leader,
            self.kill_a_follower,
            self.kill_the_manager,
            self.pause_the_leader,
            self.pause_a_follower,
            self.hang_the_leader,
            self.restart_in_turn,
            self.cut_the_power,
            self.lose_a_disk,
            self.fail_the_reads_of_a_follower,
            self.rot_everywhere,
            self.zookeeper_goes_away,
            self.zookeeper_loses_its_data,
            self.zookeeper_loses_its_data_while_nobody_runs,
            self.zookeeper_is_restored,
            self.kill_a_zookeeper,
            self.strangers_knock,
            self.replace_the_secret,
            self.stall_the_commit,
        ]
        in_a_field: list[Callable[[], None]] = [
            self.cut_the_leader_from_zookeeper,
            self.cut_the_leader_from_followers,
            self.cut_the_leader_off,
            self.cut_one_way,
            self.fill_the_disk_of_the_leader,
            self.use_up_the_inodes_of_the_leader,
            self.damage_the_leader,
        ]
        self.menu = always + (in_a_field if cluster.field is not None else [])
        self.left_out = [] if cluster.field is not None else [fault.__name__ for fault in in_a_field]
        if cluster.walls:
            self.menu.append(self.set_a_clock)
        else:
            self.left_out.append(self.set_a_clock.__name__)

    def next(self) -> Callable[[], None]:
        """The next fault: every fault comes once, in random order, before any comes again."""
        if not self._bag:
            self._bag = list(self.menu)
            self._random.shuffle(self._bag)
        return self._bag.pop()

    # Processes.

    def kill_the_leader(self) -> None:
        """kill -9 of the leader."""
        self._kill(self._cluster.leader())

    def kill_a_follower(self) -> None:
        """kill -9 of a follower."""
        self._kill(self._random.choice(self._cluster.followers()))

    def kill_the_manager(self) -> None:
        """kill -9 of the controller."""
        self._kill(self._cluster.manager() or self._cluster.leader())

    def _kill(self, number: int) -> None:
        node = self._cluster.nodes[number]
        node.kill()
        self._last(0.0, 4.0)
        self._start(number)

    def pause_the_leader(self) -> None:
        """SIGSTOP of the leader beyond its session, then SIGCONT."""
        self._pause(self._cluster.leader())

    def pause_a_follower(self) -> None:
        """SIGSTOP of a follower beyond its session, then SIGCONT."""
        self._pause(self._random.choice(self._cluster.followers()))

    def _pause(self, number: int) -> None:
        self._cluster.asleep.add(number)
        self._cluster.nodes[number].suspend()
        try:
            self._outlast_the_session()
        finally:
            self._cluster.nodes[number].resume()
            self._cluster.asleep.discard(number)

    def hang_the_leader(self) -> None:
        """SIGSTOP of the leader's process alone: its watchdog ends it, and it is restarted."""
        number = self._cluster.leader()
        node = self._cluster.nodes[number]
        self._cluster.asleep.add(number)
        node.hang()
        try:
            code = node.wait_end(HUNG_SECONDS)
            assert code != 0, f"the watchdog of node {number} did not kill it\n{node.log_tail()}"
        finally:
            self._cluster.asleep.discard(number)
        self._start(number)

    def restart_in_turn(self) -> None:
        """SIGTERM of each node in turn."""
        for number in self._random.sample(NODES, len(NODES)):
            code = self._cluster.nodes[number].stop()
            assert code == 0, f"node {number} ended with {code} after SIGTERM\n{self._cluster.log_tails()}"
            self._start(number)
            self._cluster.wait_in_sync()

    def cut_the_power(self) -> None:
        """kill -9 of all nodes at once."""
        for node in self._cluster.nodes.values():
            node.kill()
        for number in self._random.sample(NODES, len(NODES)):
            self._cluster.nodes[number].launch()
            self._last(0.0, 0.5)
        for node in self._cluster.nodes.values():
            node.wait_ready(READY_SECONDS)

    def lose_a_disk(self) -> None:
        """kill -9 of a follower, which comes back under its number with an empty disk."""
        number = self._random.choice(self._cluster.followers())
        node = self._cluster.nodes[number]
        node.kill()
        shutil.rmtree(node.data)
        self._start(number)

    def fail_the_reads_of_a_follower(self) -> None:
        """Restart of a follower, and the first reads of its segments and indexes fail."""
        number = self._random.choice(self._cluster.followers())
        node = self._cluster.nodes[number]
        strace = shutil.which("strace")
        if strace is None:
            self._say("  strace is not installed")
            return
        assert node.stop() == 0, f"node {number} did not end cleanly after SIGTERM\n{self._cluster.log_tails()}"
        files = [word for file in sorted((node.data / "partitions").rglob("*.*")) for word in ("-P", str(file))]
        inject = f"inject=pread64:error=EIO:when=1..{self._random.randint(1, FAILING_READS_MAX)}"
        before = list(node.prefix)
        node.prefix = [*before, strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=pread64", *files, "-e", inject]
        try:
            self._start(number)
        finally:
            node.prefix = before

    # ZooKeeper.

    def zookeeper_goes_away(self) -> None:
        """kill -9 of all ZooKeeper servers, for longer than a session."""
        ensemble = self._cluster.zookeeper
        for server in ensemble.servers:
            server.kill()
        try:
            self._outlast_the_session()
        finally:
            for server in ensemble.servers:
                server.start()
            for server in ensemble.servers:
                ensemble.wait_serving(server)

    def zookeeper_loses_its_data(self) -> None:
        """All ZooKeeper servers come back empty, while the nodes run."""
        with down(self._cluster.zookeeper):
            forget(self._cluster.zookeeper)

    def zookeeper_loses_its_data_while_nobody_runs(self) -> None:
        """kill -9 of all nodes; ZooKeeper comes back empty, and the nodes start in any order."""
        for node in self._cluster.nodes.values():
            node.kill()
        with down(self._cluster.zookeeper):
            forget(self._cluster.zookeeper)
        for number in self._random.sample(NODES, len(NODES)):
            self._cluster.nodes[number].launch()
            self._last(0.0, 3.0)
        for node in self._cluster.nodes.values():
            node.wait_ready(READY_SECONDS)

    def zookeeper_is_restored(self) -> None:
        """ZooKeeper is restored to its state before the last election, while the nodes run."""
        kept = self._cluster.home / "backup"
        with down(self._cluster.zookeeper):
            back_up(self._cluster.zookeeper, kept)
        self.kill_the_leader()
        self._cluster.wait_in_sync()
        with down(self._cluster.zookeeper):
            restore(self._cluster.zookeeper, kept)
        shutil.rmtree(kept)

    def kill_a_zookeeper(self) -> None:
        """kill -9 of ZooKeeper's leader."""
        ensemble = self._cluster.zookeeper
        server = ensemble.leader()
        server.kill()
        self._last(0.5, 3.0)
        server.start()
        ensemble.wait_serving(server)

    # Unauthenticated peers.

    def strangers_knock(self) -> None:
        """Unauthenticated processes at the peer ports of all nodes: wrong secrets, reflected proofs, garbage. No
        node answers.
        """
        view = self._cluster.view()
        assert view is not None
        for number in NODES:
            address, member = str(self._cluster.nodes[number].ready["peers"]), NODES[number % len(NODES)]
            for attempt in (stranger.plain, stranger.guessed, stranger.reflected, stranger.garbage):
                heard = attempt(address, view.hall, member)
                assert all(kind in (CHALLENGE, REFUSAL) for kind, _ in heard), (
                    f"node {number} answers an unauthenticated peer"
                )
                assert not any(view.hall.encode() in body for _, body in heard), (
                    f"node {number} gives data to an unauthenticated peer"
                )

    def replace_the_secret(self) -> None:
        """The cluster secret is replaced on all nodes in three steps, while they run."""
        old, new = self._cluster.secret_file(NODES[0]).read_text().split()[0], f"{self._random.getrandbits(256):064x}"
        for step in ([old, new], [new, old], [new]):
            for number in self._random.sample(NODES, len(NODES)):
                self._cluster.write_secrets(number, step)

    def stall_the_commit(self) -> None:
        """SIGSTOP of ZooKeeper and of a follower, for over a minute, under acks=1 load."""
        seen = stall(self._cluster, self._random.uniform(*STALL_SECONDS), STALL_BYTES_A_SECOND)
        self._say(f"  node {seen.leader} grew by {seen.grown_bytes >> 20} MiB, its log by {seen.log_bytes >> 20} MiB")
        most = MEMORY_SHARE * Settings().memory_bytes
        assert seen.grown_bytes <= most, f"{seen}\n{self._cluster.log_tails()}"

    # The network.

    def cut_the_leader_from_zookeeper(self) -> None:
        """The leader and ZooKeeper are cut off from each other."""
        self._cut(name_of(self._cluster.leader()), [ZOOKEEPER])

    def cut_the_leader_from_followers(self) -> None:
        """The leader and the other nodes are cut off from each other; all reach ZooKeeper."""
        self._cut(name_of(self._cluster.leader()), [name_of(one) for one in self._cluster.followers()])

    def cut_the_leader_off(self) -> None:
        """The leader is cut off from all but its clients."""
        others = [name_of(one) for one in self._cluster.followers()]
        self._cut(name_of(self._cluster.leader()), [*others, ZOOKEEPER])

    def _cut(self, one: str, others: list[str]) -> None:
        field = self._cluster.field
        assert isinstance(field, Field)
        field.cut_between(one, others)
        self._outlast_the_session()
        field.heal()

    def cut_one_way(self) -> None:
        """One direction of one link is cut."""
        field = self._cluster.field
        assert isinstance(field, Field)
        source, target = self._random.sample([*(name_of(one) for one in NODES), ZOOKEEPER], 2)
        self._say(f"  from {source} to {target}")
        field.cut(source, target)
        self._outlast_the_session()
        field.heal()

    # Disks and clocks.

    def fill_the_disk_of_the_leader(self) -> None:
        """The leader's disk is full for a while."""
        number = self._cluster.leader()
        disk = self._cluster.disk(number)
        resize_memory(disk, self._random.choice(LEFT_BYTES))
        self._outlast_the_session()
        resize_memory(disk, DISK_BYTES)
        if not self._cluster.nodes[number].running:
            self._say(f"  node {number} had ended")
            self._start(number)

    def use_up_the_inodes_of_the_leader(self) -> None:
        """The leader's disk is out of inodes for a while."""
        number = self._cluster.leader()
        disk = self._cluster.disk(number)
        limit_files(disk, self._random.choice(LEFT_FILES))
        self._outlast_the_session()
        limit_files(disk, None)
        if not self._cluster.nodes[number].running:
            self._say(f"  node {number} had ended")
            self._start(number)

    def damage_the_leader(self) -> None:
        """A bit flips in a message on the leader's disk."""
        number = self._cluster.leader()
        said = self._cluster.nodes[number].log_text()
        found = _large_segments(self._cluster.nodes[number].data)
        if not found:
            self._say("  nothing is on the disk yet")
            return
        segment = self._random.choice(found)
        at = self._random.randrange(segment.stat().st_size // 2)
        _flip(segment, at)
        self._say(f"  node {number}, {segment.parent.name}/{segment.name} at byte {at}")
        self.on_damage()
        heard = self._cluster.nodes[number].log_text()[len(said) :]
        if MENDED in heard:
            self._say("  it was repaired")
        elif NOTICED not in heard:
            self._say("  it was not read, and flips back")
            _flip(segment, at)

    def rot_everywhere(self) -> None:
        """Bits flip in cold messages of every node, and a scrub pass repairs them."""
        whole: dict[Path, bytes] = {}
        for turn, number in enumerate(NODES):
            # No two nodes lose the same messages; the end of a file may not be written yet.
            segments = _large_segments(self._cluster.nodes[number].data)[turn :: len(NODES)]
            for segment in segments[:ROTTEN_SEGMENTS]:
                data = segment.read_bytes()
                whole[segment] = data[: len(data) // 2]
                _flip(segment, self._random.choice(_covered_bytes(data, len(whole[segment]))))
        self._say(f"  {len(whole)} segments")
        http = self._cluster.nodes[self._cluster.leader()].http
        deadline = time.monotonic()
        if http.startswith("127."):
            scrubbed = _scrub(http)
            assert scrubbed.returncode == 0, scrubbed.stdout + scrubbed.stderr + self._cluster.log_tails()
        else:
            deadline += SCRUBBED_S
        for segment, good in whole.items():
            while not segment.read_bytes().startswith(good):
                assert time.monotonic() < deadline, f"{segment} is not repaired"
                time.sleep(1.0)

    def set_a_clock(self) -> None:
        """The wall clock of a node jumps, and jumps back."""
        number, shift_s = self._random.choice(NODES), self._random.choice(JUMPS_S)
        self._say(f"  node {number} by {shift_s} s")
        self._cluster.walls[number].set(shift_s)
        self._last(2.0, 5.0)
        self._cluster.walls[number].set(0)

    # Shared steps.

    def _start(self, number: int) -> None:
        self._cluster.nodes[number].launch()
        self._cluster.nodes[number].wait_ready(READY_SECONDS)

    def _last(self, least: float, most: float) -> None:
        time.sleep(self._random.uniform(least, most))

    def _outlast_the_session(self) -> None:
        time.sleep(self._cluster.session_ms / 1000 + BEYOND_SECONDS)


def _large_segments(data: Path) -> list[Path]:
    found = [one for one in data.glob("partitions/*/*.log") if one.stat().st_size > SEGMENT_BYTES_MIN]
    return sorted(one for one in found if is_of_the_load(one))


def _covered_bytes(data: bytes, behind: int) -> list[int]:
    """One byte under the checksum of each batch that begins before `behind`."""
    found: list[int] = []
    at = 0
    while at < behind:
        size = check_batch(data, at, len(data)).size_bytes
        found.append(at + (CRC_COVERS_FROM + size) // 2)
        at += size
    return [one for one in found if one < behind]


def _scrub(http: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, "scrub", "--now", "--http", http], capture_output=True, text=True, timeout=300)


def _flip(segment: Path, at: int) -> None:
    with segment.open("r+b") as file:
        file.seek(at)
        before = file.read(1)
        file.seek(at)
        file.write(bytes([before[0] ^ 0x10]))


def _nothing() -> None:
    """The default for `on_damage`."""
