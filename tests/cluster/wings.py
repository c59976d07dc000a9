"""The wings of a real cluster, as the command line lists them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from soak.cluster import Cluster
from soak.node import COMMAND


def wings_of(cluster: Cluster) -> list[dict[str, Any]]:
    """The rows of `longhall cluster wing list`."""
    command = [*COMMAND, "cluster", "wing", "list", "--http", cluster.nodes[1].http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{cluster.log_tails()}"
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
