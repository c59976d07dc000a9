"""The retry delay of a returned message: exponential backoff with an upper bound.

    attempt 1 failed: first_ms     attempt 2: first_ms * factor     attempt n: first_ms * factor ** (n - 1)

This module does not know dead letters, which take a message after its last attempt.
"""

from __future__ import annotations

import math

from longhall.queues.settings import RetryPolicy


def retry_delay_ms(policy: RetryPolicy | None, attempts: int) -> int:
    """The delay after this many failed attempts (at least one); 0 without a policy."""
    if policy is None or policy.first_ms <= 0 or attempts < 1:
        return 0
    first_ms = policy.first_ms
    longest_ms = policy.longest_ms
    if first_ms >= longest_ms:
        return longest_ms
    # Compared by logarithms first, because the power overflows after a thousand attempts.
    if (attempts - 1) * math.log(policy.factor) >= math.log(longest_ms / first_ms):
        return longest_ms
    return min(int(first_ms * policy.factor ** (attempts - 1)), longest_ms)
