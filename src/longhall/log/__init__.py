"""Storage of messages: the write-ahead log, the segments of each partition, and their recovery, cleaning and repair."""
