"""The query that `soak.sink` runs and kills: from one topic to another, its rows shuffled anew in every run.

`python -m soak.sink_query BOOTSTRAP SOURCE TARGET CHECKPOINT MASTER continuous|once`
"""

from __future__ import annotations

import sys

from longhall.pipeline import session

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.memory": "512m",
}


def main(bootstrap: str, source: str, target: str, checkpoint: str, master: str, how: str) -> int:
    spark = session(master, name="longhall soak", settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.format("longhall").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="2000").load()
    # By a random number: a batch that is run again has its rows in other tasks.
    dealt = rows.selectExpr("key", "value").repartition(3, "value").repartition(3)
    writer = dealt.writeStream.format("longhall").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.options(topic=target, checkpointLocation=checkpoint)
    query = (writer.trigger(availableNow=True) if how == "once" else writer).start()
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
