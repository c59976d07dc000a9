"""The machine and the versions of a measurement, for the head of every report."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import confluent_kafka

from bench.load import generator
from bench.peers import kafka
from bench.peers.longhall import COMMAND


def describe() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "java": _java(),
        "longhall": _longhall(),
        "kafka": kafka.VERSION,
        "librdkafka": f"{confluent_kafka.libversion()[0]} with {generator.allocator() or 'glibc'}",
        "client": "C program on librdkafka" if generator.compiled() else "Python, confluent-kafka",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java() -> str:
    if shutil.which("java") is None:
        return "none"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return said.splitlines()[0].split('"')[1] if '"' in said else "unknown"


def _longhall() -> str:
    """The version in use, and whether its hot rooms are compiled."""
    question = "import importlib.metadata as m, longhall.records.batch as b; print(m.version('longhall'), b.__file__)"
    python = COMMAND.with_name("python")
    said = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        return "not installed"
    version, _, module = said.stdout.strip().partition(" ")
    return f"{version}, hot rooms {'compiled' if module.endswith('.so') else 'in pure Python'}"
