"""A report on queues and topics over a period: measured on Spark, drawn here, one HTML file without a network.

`measures` asks Spark and gives plain values, `forecast` looks ahead, `svg` draws, `page` writes, `job` joins them. Only
`measures` and `job` know Spark.
"""
