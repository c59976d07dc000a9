"""TLS among the metrics: connections that did not reach their door, and when the certificates expire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from longhall.console.metrics import Family, gauge, labels
from longhall.front.handshake_refusals import NotAdmittedCount


class TlsStatus(Protocol):
    """The TLS of a node."""

    @property
    def not_admitted(self) -> Sequence[NotAdmittedCount]: ...

    @property
    def expires_s(self) -> float | None: ...


def tls_families(tls: TlsStatus) -> Iterator[Family]:
    """The metrics of TLS and of balancers; none of a node without both."""
    if tls.not_admitted:
        samples = [
            ("", labels(("door", one.door), ("reason", reason)), count)
            for one in tls.not_admitted
            for reason, count in one.counts.items()
        ]
        help_refused = "Connections that did not reach their door: no TLS, a failed handshake, no PROXY header."
        yield Family("longhall_connections_not_admitted_total", "counter", help_refused, samples)
    if tls.expires_s is not None:
        help_expiry = "When the first certificate of the node expires, in seconds since 1970."
        yield gauge("longhall_tls_certificate_expiry_timestamp_seconds", help_expiry, tls.expires_s)
