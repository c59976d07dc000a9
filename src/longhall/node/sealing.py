"""Sealing in one process: the gate of its doors, the data keys, and the operations on them, wired together."""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.directory.directory import Directory
from longhall.doors.kafka.sealing import KafkaSealing
from longhall.front.keys.master_keys import MasterKeys
from longhall.front.sealing.batches import BatchSealer
from longhall.front.sealing.data_keys import CallCatalogue, DataKeys
from longhall.front.sealing.gate import SealingGate
from longhall.service.local import LocalBroker
from longhall.service.router import Router
from longhall.service.seal_operations import register_seal_operations
from longhall.service.sessions import Sessions


def seal_messages(
    hall: Hall,
    broker: LocalBroker,
    router: Router,
    sessions: Sessions,
    masters: MasterKeys | None,
    call: CallCatalogue,
    directory: Directory,
) -> KafkaSealing:
    """Let messages pass the gate on their way between doors and broker; what the Kafka door seals with is returned."""
    register_seal_operations(hall, broker)
    entropy = hall.world.entropy

    def key_of_tenant(name: str) -> str:
        return directory.accounts.key_of_tenant(name)

    gate = SealingGate(router, DataKeys(masters, call, hall.world.clock), entropy.bytes, key_of_tenant)
    router.pass_through(gate)
    sessions.pass_through(gate)
    return KafkaSealing(hall, BatchSealer(gate.sealer, entropy.bytes), key_of_tenant)
