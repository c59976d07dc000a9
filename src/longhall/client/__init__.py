"""Our own Kafka client: small, asyncio alone, at home in real and in virtual time.

`Hall.connect` is where to begin; `Producer`, `Reader` and `Member` stand on a hall.
"""
