"""Topics and queues as Parquet, with a manifest that says what counts: written by a Spark job, read by replay."""
