"""A private network for a cluster: each host in a namespace, the clients on the router between them, and cuts.

    clients (here, 10.77.N.1) ---- 10.77.N.2 (host N, with its own loopback)

A cut is a rule of the router: packets from one host to another are dropped silently, in one direction, for existing and
new connections. Clients reach every host all the time. The field belongs to the process that made it: `enclosed` runs a
program in namespaces of its own (network, mounts, processes), so that nothing is left when that program ends, in
whatever way. It needs `unshare` and `ip`, and root or user namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, final

MARK: Final = "LONGHALL_SOAK_ENCLOSED"
LOOPBACK: Final = "127.0.0.1"
INTERFACE: Final = "far"  # Of every host.
_SPACES: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
TRY_SECONDS_MAX: Final = 60.0
RESIZES_MAX: Final = 20
FILES_MAX: Final = 1 << 20  # Inodes of a disk without a shortage.


class FieldFailed(RuntimeError):
    """The system does not permit what a field needs."""


def is_enclosed() -> bool:
    """True if this process runs in namespaces of its own."""
    return MARK in os.environ


def enclosed(command: Sequence[str]) -> list[str]:
    """The command that runs `command` in namespaces of its own; empty where the system does not permit it."""
    if shutil.which("unshare") is None or shutil.which("ip") is None or shutil.which("nsenter") is None:
        return []
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    shell = ["unshare", *users, *_SPACES, "env", f"{MARK}=1"]
    trial = [sys.executable, "-m", "soak.field"]
    done = subprocess.run([*shell, *trial], capture_output=True, timeout=TRY_SECONDS_MAX, check=False)
    return [*shell, *command] if done.returncode == 0 else []


@final
class Field:
    """The hosts of one network, by name; `""` is the clients' host."""

    def __init__(self, hosts: Sequence[str]) -> None:
        assert is_enclosed(), "a field may not change the network of the machine"
        self._numbers = {host: number for number, host in enumerate(hosts, start=1)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._cuts: set[tuple[str, str]] = set()
        _run("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for host in hosts:
            self._lay_out(host)

    def address(self, host: str) -> str:
        return f"10.77.{self._numbers[host]}.2"

    def prefix(self, host: str) -> list[str]:
        """The command prefix that runs a program on that host."""
        return ["nsenter", f"--net=/proc/{self._holders[host].pid}/ns/net"]

    def cut(self, source: str, target: str) -> None:
        """Drop packets from one host to the other; the opposite direction is another cut."""
        if (source, target) not in self._cuts:
            self._cuts.add((source, target))
            _run("ip", "rule", "add", *self._rule(source, target))

    def cut_between(self, one: str, others: Iterable[str]) -> None:
        """Cut both directions."""
        for other in others:
            self.cut(one, other)
            self.cut(other, one)

    def heal(self) -> None:
        for source, target in self._cuts:
            _run("ip", "rule", "del", *self._rule(source, target))
        self._cuts.clear()

    def _rule(self, source: str, target: str) -> list[str]:
        return ["from", self.address(source), "to", self.address(target), "blackhole"]

    def _lay_out(self, host: str) -> None:
        number = self._numbers[host]
        holder = self._holders[host] = _hold_namespace()
        near, there = f"lh{number}", self.prefix(host)
        _run("ip", "link", "add", near, "type", "veth", "peer", "name", INTERFACE, "netns", str(holder.pid))
        _run("ip", "address", "add", f"10.77.{number}.1/24", "dev", near)
        _run("ip", "link", "set", near, "up")
        _run(*there, "ip", "address", "add", f"10.77.{number}.2/24", "dev", INTERFACE)
        _run(*there, "ip", "link", "set", INTERFACE, "up")
        _run(*there, "ip", "route", "add", "default", "via", f"10.77.{number}.1")


@final
class Segment:
    """Hosts on one bridge, the clients among them (10.78.0.1): an address may move from one host to another."""

    def __init__(self, hosts: Sequence[str]) -> None:
        assert is_enclosed(), "a segment may not change the network of the machine"
        self._numbers = {host: number for number, host in enumerate(hosts, start=11)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "segment", "type", "bridge")
        _run("ip", "address", "add", "10.78.0.1/24", "dev", "segment")
        _run("ip", "link", "set", "segment", "up")
        for host, number in self._numbers.items():
            holder = self._holders[host] = _hold_namespace()
            near, there = f"lh{number}", self.prefix(host)
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", INTERFACE, "netns", str(holder.pid))
            _run("ip", "link", "set", near, "master", "segment", "up")
            _run(*there, "ip", "link", "set", INTERFACE, "up")
            self.reset_addresses(host)

    def address(self, host: str) -> str:
        return f"10.78.0.{self._numbers[host]}"

    def prefix(self, host: str) -> list[str]:
        """The command prefix that runs a program on that host."""
        return ["nsenter", f"--net=/proc/{self._holders[host].pid}/ns/net"]

    def run(self, host: str, *command: str) -> str:
        """The output of a command on a host."""
        return _run(*self.prefix(host), *command)

    def unplug(self, host: str) -> None:
        """Take a host off the bridge, as if it had lost its power."""
        _run("ip", "link", "set", f"lh{self._numbers[host]}", "down")

    def plug(self, host: str) -> None:
        _run("ip", "link", "set", f"lh{self._numbers[host]}", "up")

    def reset_addresses(self, host: str) -> None:
        """Leave a host its own address only, as after a start."""
        there = self.prefix(host)
        _run(*there, "ip", "address", "flush", "dev", INTERFACE)
        _run(*there, "ip", "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)

    def has_address(self, host: str, address: str) -> bool:
        return f" {address}/" in self.run(host, "ip", "-4", "address", "show", "dev", INTERFACE)


def _hold_namespace() -> subprocess.Popen[bytes]:
    """A process in a network namespace of its own: the namespace lasts as long as a process is in it."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec sleep infinity"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != b"\n":  # It reports when it has entered.
        raise FieldFailed("no namespace for a host")
    return holder


def mount_memory(directory: Path, size_bytes: int) -> None:
    """Mount a memory disk of this size, which ends with the namespaces."""
    assert is_enclosed(), "a field may not change the mounts of the machine"
    directory.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory))


def resize_memory(directory: Path, left_bytes: int) -> None:
    """Shrink a memory disk until only so many bytes are free."""
    for _ in range(RESIZES_MAX):
        now = os.statvfs(directory)
        size_bytes = (now.f_blocks - now.f_bfree) * now.f_frsize + left_bytes
        try:
            _run("mount", "-o", f"remount,size={size_bytes}", str(directory))
            return
        except FieldFailed:
            continue  # The node has written more meanwhile.
    raise FieldFailed(f"{directory} could not be made smaller")


def limit_files(directory: Path, left: int | None) -> None:
    """Limit the number of further files on a memory disk; None removes the limit."""
    for _ in range(RESIZES_MAX):
        now = os.statvfs(directory)
        files = FILES_MAX if left is None else now.f_files - now.f_ffree + left
        try:
            _run("mount", "-o", f"remount,nr_inodes={files}", str(directory))
            return
        except FieldFailed:
            continue  # The node has created more files meanwhile.
    raise FieldFailed(f"the files of {directory} could not be limited")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FieldFailed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _try() -> None:
    """Raise FieldFailed unless the system permits all that a field needs."""
    field = Field(["one", "two"])
    field.cut_between("one", ["two"])
    field.heal()
    mount_memory(Path("/tmp"), 1 << 20)
    resize_memory(Path("/tmp"), 0)


if __name__ == "__main__":
    _try()
