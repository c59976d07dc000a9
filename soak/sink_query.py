"""The query that `soak.sink` runs and kills: from one topic to another, its rows shuffled anew in every run.

`python -m soak.sink_query BOOTSTRAP SOURCE TARGET CHECKPOINT MASTER continuous|once ORDERS`

ORDERS is a file that may contain `STEP PID...`: after that step of the next commit these processes are killed (negative
ids are process groups, 0 is the committing process), and the file is removed before. So every point between two steps
is tested, not only those that chance selects.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from longhall.pipeline import session
from longhall.pipeline.sink import LonghallStreamWriter
from longhall.pipeline.sink_options import SinkOptions, read_sink_options
from longhall.pipeline.source import LonghallSource
from soak.spark_driver import SETTINGS

FORMAT = "longhall-obeying"
RESTARTS_MAX = 1000


class ObeyingSource(LonghallSource):
    """The sink with a listener for its commit steps. Executors get it as part of the main module."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        orders = Path(self.options["orders"])
        return ObeyingWriter(read_sink_options(self.options, streaming=True, overwrite=overwrite), schema, orders)


class ObeyingWriter(LonghallStreamWriter):
    def __init__(self, options: SinkOptions, schema: StructType, orders: Path) -> None:
        super().__init__(options, schema)
        self._orders = orders

    def _step(self, name: str) -> None:
        try:
            step, *victims = self._orders.read_text().split()
        except (FileNotFoundError, ValueError):
            return
        if step == name:
            self._orders.unlink()
            for victim in map(int, victims):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim or os.getpid(), signal.SIGKILL)


def main(bootstrap: str, source: str, target: str, checkpoint: str, master: str, how: str, orders: str) -> int:
    spark = session(master, name="longhall soak", settings={**SETTINGS, "spark.sql.shuffle.partitions": "3"})
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(ObeyingSource)
    reader = spark.readStream.format("longhall").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="2000").load()
    # By a random number, so that a repeated batch has its rows in other tasks.
    dealt = rows.selectExpr("key", "value").repartition(3, "value").repartition(3)
    writer = dealt.writeStream.format(FORMAT).option("kafka.bootstrap.servers", bootstrap)
    writer = writer.options(topic=target, checkpointLocation=checkpoint, orders=orders)
    if how == "once":
        writer.trigger(availableNow=True).start().awaitTermination()
        return 0
    for _ in range(RESTARTS_MAX):  # It must survive a dead worker or a dead broker.
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as failure:
            print(str(failure).splitlines()[0], file=sys.stderr, flush=True)
            time.sleep(0.2)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
