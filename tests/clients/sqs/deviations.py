"""Where other servers do not do what AWS documents, by test. Longhall has no line here."""

from __future__ import annotations

from typing import Final

DEVIATIONS: Final[dict[str, dict[str, str]]] = {"moto": {}, "elasticmq": {}}
