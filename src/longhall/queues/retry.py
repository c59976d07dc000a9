"""How long a message that was given back waits before it comes again: longer each time, up to a longest.

    attempt 1 failed: first_ms     attempt 2: first_ms * factor     attempt n: first_ms * factor ** (n - 1)

When attempts are used up it is the dead letters' turn, which this module does not know.
"""

from __future__ import annotations

import math

from longhall.queues.settings import RetryPolicy


def retry_delay_ms(policy: RetryPolicy | None, attempts: int) -> int:
    """The wait after so many failed attempts (at least one); 0 without a policy: it is available at once."""
    if policy is None or policy.first_ms <= 0 or attempts < 1:
        return 0
    first_ms = policy.first_ms
    longest_ms = policy.longest_ms
    if first_ms >= longest_ms:
        return longest_ms
    # By logarithms first, because the power of a thousand attempts is too large for a number.
    if (attempts - 1) * math.log(policy.factor) >= math.log(longest_ms / first_ms):
        return longest_ms
    return min(int(first_ms * policy.factor ** (attempts - 1)), longest_ms)
