"""`python -m soak`: kills of a node under load (`soak.kill`); `python -m soak cluster`: all faults of a cluster
(`soak.storm`); `python -m soak balancers`: a cluster behind two balancers (`soak.balancers`); `python -m soak celery`:
Celery whose broker is killed every minute (`soak.celery_soak`).
"""

from __future__ import annotations

import sys

from soak import balancers, celery_soak, kill, storm

if sys.argv[1:2] == ["cluster"]:
    sys.exit(storm.main(sys.argv[2:]))
if sys.argv[1:2] == ["balancers"]:
    sys.exit(balancers.main(sys.argv[2:]))
if sys.argv[1:2] == ["celery"]:
    sys.exit(celery_soak.main(sys.argv[2:]))
sys.exit(kill.main())
