"""`python -m soak`: kills of a node under load (`soak.kill`); `python -m soak cluster`: all faults of a cluster
(`soak.storm`).
"""

from __future__ import annotations

import sys

from soak import kill, storm

sys.exit(storm.main(sys.argv[2:]) if sys.argv[1:2] == ["cluster"] else kill.main())
