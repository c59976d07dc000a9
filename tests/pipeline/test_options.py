"""Options as users of Spark's Kafka source write them, and the line that they get for what cannot be right."""

from __future__ import annotations

import pytest

from longhall.pipeline.options import EARLIEST, LATEST, Bound, read_options
from longhall.pipeline.refusals import PipelineError

WHERE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "a"}


def test_the_defaults_are_those_of_the_kafka_source() -> None:
    batch, stream = (read_options(WHERE, streaming=streaming) for streaming in (False, True))
    assert (batch.starting, batch.ending) == (Bound(EARLIEST), Bound(LATEST))
    assert stream.starting == Bound(LATEST)
    assert batch.fail_on_data_loss
    assert not batch.read_committed
    assert batch.rows_max is None


def test_option_names_are_case_insensitive() -> None:
    options = read_options({**WHERE, "MAXOFFSETSPERTRIGGER": "7", "failondataloss": "FALSE"}, streaming=True)
    assert (options.rows_max, options.fail_on_data_loss) == (7, False)


def test_subscriptions() -> None:
    def takes(**given: str) -> list[str]:
        chosen = read_options({"kafka.bootstrap.servers": "x:1", **given}, streaming=False).subscription
        return [name for name in ("orders", "orders-2", "bills") if chosen.takes(name)]

    assert takes(subscribe="orders, bills") == ["orders", "bills"]
    assert takes(subscribePattern="orders.*") == ["orders", "orders-2"]
    assert takes(assign='{"bills":[0,2]}') == ["bills"]


def test_offsets_are_read_as_kafka_writes_them_and_as_we_do() -> None:
    options = read_options({**WHERE, "startingOffsets": '{"#ids":{"a":"00"},"a":{"0":23,"1":-2}}'}, streaming=False)
    assert options.starting.offsets == {"a": {0: 23, 1: EARLIEST}}


def test_a_time_goes_before_offsets() -> None:
    options = read_options({**WHERE, "startingTimestamp": "5", "startingOffsets": "earliest"}, streaming=True)
    assert options.starting == Bound(timestamp_ms=5, missing_is_latest=False)
    options = read_options({**WHERE, "endingOffsetsByTimestamp": '{"a":{"0":9}}'}, streaming=False)
    assert options.ending == Bound(timestamps_ms={"a": {0: 9}})


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"kafka.bootstrap.servers": ""}, False, "kafka.bootstrap.servers is missing"),
        ({"assign": '{"a":[0]}'}, False, "exactly one of"),
        ({"subscribe": ""}, False, "subscribe is empty"),
        ({"startingOffsets": "latest"}, False, "cannot be latest in a batch"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, False, "cannot have -1"),
        ({"startingOffsets": '{"a":[0]}'}, False, "must look like"),
        ({"startingOffsets": "erliest"}, False, "startingOffsets is not JSON"),
        ({"endingOffsets": "earliest"}, False, "cannot be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, False, "cannot have -2"),
        ({"endingOffsets": "latest"}, True, "a stream has no end"),
        ({"failOnDataLoss": "perhaps"}, False, "true or false"),
        ({"maxOffsetsPerTrigger": "-5"}, True, "a whole number from 1 on"),
        ({"kafka.isolation.level": "dirty"}, False, "read_committed or read_uncommitted"),
        ({"kafka.auto.offset.reset": "latest"}, False, "use startingOffsets instead"),
        ({"maxTriggerDelay": "soon"}, True, "a time like 15m"),
        ({"startingTimestamp": "yesterday"}, False, "a time in milliseconds"),
    ],
)
def test_a_wrong_option_is_refused_by_name(given: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(PipelineError, match=said) as refusal:
        read_options({**WHERE, **given}, streaming=streaming)
    assert "\n" not in str(refusal.value)


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(PipelineError, match="no regular expression"):
        read_options({"kafka.bootstrap.servers": "x:1", "subscribePattern": "("}, streaming=False)
