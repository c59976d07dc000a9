"""`python -m soak`: kills under load; the options are those of `soak.kill`."""

from __future__ import annotations

import sys

from soak.kill import main

sys.exit(main())
