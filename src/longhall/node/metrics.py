"""The metrics of a process beside those of its doors and its cluster: which families `/metrics` collects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from longhall.console.access_families import access_families
from longhall.console.audit_families import audit_families
from longhall.console.login_families import identity_provider_families, login_families
from longhall.console.outbox_families import outbox_families
from longhall.console.process import build_families, process_families
from longhall.console.scrub_families import scrub_families
from longhall.console.tls_families import tls_families
from longhall.front.audit import AuditTrail
from longhall.node.client_limits import NodeLimits
from longhall.node.scrubs import NodeScrubs

if TYPE_CHECKING:
    from longhall.node.assembly import Node


def collect_metrics(node: Node, scrubs: NodeScrubs, limits: NodeLimits, audit: AuditTrail | None) -> None:
    """Let the registry of the node collect everything that it measures."""
    registry, authenticator = node.registry, node.authentication.authenticator
    registry.collect(process_families)
    registry.collect(build_families)
    registry.collect(partial(tls_families, node.tls))
    registry.collect(partial(scrub_families, scrubs))
    registry.collect(partial(login_families, authenticator.failed_logins))
    if authenticator.provider is not None:
        registry.collect(partial(identity_provider_families, authenticator.provider.reads))
    registry.collect(partial(outbox_families, node.queues.outbox))
    registry.collect(partial(access_families, node.guard))
    limits.show(registry)
    if audit is not None:
        registry.collect(partial(audit_families, audit))
