"""The options of writing with `format("longhall")`, with the names of Spark's Kafka sink.

Producer options (`kafka.*`) that have no meaning here are ignored: batching, acknowledgement and retries are not
configurable. The module does not connect to a hall.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from longhall.client.security import ClientSecurity
from longhall.names import INTERNAL_PREFIX, NAME_LENGTH_MAX, is_legal_name
from longhall.pipeline.options import Given, bootstrap_of
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.security_options import read_security
from longhall.records.compression import CODEC_NAMES

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
SINK_PREFIX: Final = f"{INTERNAL_PREFIX}sink-"  # A topic with the last commit of a sink.
STAGE_PREFIX: Final = f"{INTERNAL_PREFIX}stage-"  # A topic with the uncommitted batches of its tasks.

_REFUSED: Final = {
    "kafka.key.serializer": "keys are taken as bytes or text; cast the column",
    "kafka.value.serializer": "values are taken as bytes or text; cast the column",
    "kafka.interceptor.classes": "interceptors are not run",
    "kafka.transactional.id": "the sink has transactions of its own; the option transactionalId names it",
}


class SinkOptions(NamedTuple):
    """The checked options of a write."""

    bootstrap: str
    topic: str = ""
    compression: int = 0
    keep_timestamps: bool = False
    delivery: str = EXACTLY_ONCE
    sink: str = ""  # The name under which commits are remembered; streams without one use the id of their query.
    batch_id: int | None = None
    security: ClientSecurity = ClientSecurity()


def read_sink_options(given: Mapping[str, str], *, streaming: bool, overwrite: bool) -> SinkOptions:
    """Check the options. Raises PipelineError that names the wrong option."""
    options = Given(given)
    for name, advice in _REFUSED.items():
        if options.text(name) is not None:
            raise PipelineError(f"the option {name} is not supported: {advice}")
    if overwrite and not streaming:
        raise PipelineError('a topic can only be appended to; write with mode("append")')
    delivery = (options.text("delivery") or EXACTLY_ONCE).lower()
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise PipelineError(f"the option delivery is {delivery!r}; it is {EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    return SinkOptions(
        bootstrap=bootstrap_of(options),
        topic=_topic(options),
        compression=_compression(options),
        keep_timestamps=options.flag("keepTimestamps", False),
        delivery=delivery,
        sink=_sink(options),
        batch_id=_batch_id(options, streaming),
        security=read_security(given),
    )


def _topic(options: Given) -> str:
    topic = options.text("topic")
    if topic is not None and not is_legal_name(topic):
        raise PipelineError(f"the option topic is {topic!r}, which is no name of a topic")
    return topic or ""


def _compression(options: Given) -> int:
    name = (options.text("kafka.compression.type") or "none").lower()
    if name not in CODEC_NAMES:
        raise PipelineError(f"the option kafka.compression.type is {name!r}; it is one of {', '.join(CODEC_NAMES)}")
    return CODEC_NAMES.index(name)


def _sink(options: Given) -> str:
    name = options.text("transactionalId")
    if name is None:
        return ""
    if not is_legal_name(name) or len(STAGE_PREFIX + name) > NAME_LENGTH_MAX:
        longest = NAME_LENGTH_MAX - len(STAGE_PREFIX)
        raise PipelineError(
            f"the option transactionalId is {name!r}; it is up to {longest} letters, digits, dots, dashes, underscores"
        )
    return name


def _batch_id(options: Given, streaming: bool) -> int | None:
    value = options.text("batchId")
    if value is None:
        return None
    if streaming:
        raise PipelineError("the option batchId is for batches: a stream numbers its batches itself")
    if not value.isdigit():
        raise PipelineError(f"the option batchId is {value!r}; it is a whole number from 0 on")
    if options.text("transactionalId") is None:
        raise PipelineError("the option batchId needs transactionalId: whose batches are numbered?")
    return int(value)
