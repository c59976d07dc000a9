"""The limits of the service."""

from __future__ import annotations

import msgspec


class SqsLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the service that an operator can widen; the real service refuses what exceeds its own."""

    message_bytes_max: int = 1024 * 1024
    batch_bytes_max: int = 1024 * 1024
    delay_s_max: int = 900
    retention_s_max: int = 1_209_600
    visibility_s_max: int = 43_200
    wait_s_max: int = 20
