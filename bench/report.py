from __future__ import annotations
import json


def kafka_tables(r: dict[str, object]) -> str:
    return json.dumps(r, indent=1)


def publish() -> None:
    pass
