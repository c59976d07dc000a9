"""Work over many messages at once, on Spark through PySpark: the data source `format("longhall")` and the jobs.

    from longhall.pipeline import session
    spark = session()                       # or: register(spark), for a session of one's own
    spark.read.format("longhall").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "orders")

Nothing here is imported by a node. Importing this room imports no Spark; what needs it does so when it is called.
"""

from __future__ import annotations

from longhall.pipeline.queue_tables import QueueTables, redrive
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.spark import register, session

__all__ = ["PipelineError", "QueueTables", "redrive", "register", "session"]
