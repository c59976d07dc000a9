"""The Kafka client of Longhall: small, asyncio only, for real and virtual time.

`Hall.connect` is the entry point; `Producer`, `Reader` and `GroupMember` use a hall.
"""
