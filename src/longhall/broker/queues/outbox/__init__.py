"""Messages for queues of other replication groups: the outbox at the source, and their arrival at the target."""
