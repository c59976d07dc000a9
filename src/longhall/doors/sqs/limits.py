"""The bounds of the SQS door that are the service's own."""

from __future__ import annotations

import msgspec


class SqsLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that the service sets and that an owner may widen, at the price that other SQS will not take the same."""

    message_bytes_max: int = 1024 * 1024
    batch_bytes_max: int = 1024 * 1024
    delay_s_max: int = 900
    retention_s_max: int = 1_209_600
    visibility_s_max: int = 43_200
    wait_s_max: int = 20
