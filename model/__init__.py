"""An explicit-state model of the replication protocol, and a checker that explores it. See docs/replication.md."""
