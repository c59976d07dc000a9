"""Where runs begin, and what may happen in them."""

from __future__ import annotations

from model.bounds import KINDS
from model.state import NOBODY, NOTHING, Coordinator, Entry, Node, Office, Record, State, bit


def cluster(nodes: int, replicas: int, in_sync: int | None = None, blank: int = NOTHING) -> State:
    """A cluster whose node 0 leads epoch 1; its epoch is committed everywhere, and everybody has agreed."""
    in_sync = replicas if in_sync is None else in_sync
    record = Record(0, 1, replicas, in_sync, 1)
    log = (Entry(1, 0, replicas),)
    made = []
    for number in range(nodes):
        keeps = bool(replicas & bit(number))
        office = Office(1, 1, in_sync, NOTHING, replicas, 0, tuple(int(bool(replicas & bit(n) and n)) for n in range(nodes)))
        made.append(
            Node(
                log=log if keeps else (),
                synced=int(keeps),
                committed=int(keeps),
                life=1,
                seen=(0, 0),
                blank=bool(blank & bit(number)),
                up=True,
                epoch=1,
                leader=0 if keeps and number else NOBODY,
                agreed=bool(keeps and number),
                halted=False,
                heard=None,
                office=office if number == 0 else None,
            )
        )
    return State(
        nodes=tuple(made),
        coordinator=Coordinator(record, 1, (1 << nodes) - 1, (1,) * nodes),
        backup=None,
        saved=(None,) * nodes,
        spent=(0,) * len(KINDS),
        truth=((log[0], 1),),
        leaders=((1, 0),),
        alone=(),
        quorum=(NOTHING, ()),
        broken="",
    )
