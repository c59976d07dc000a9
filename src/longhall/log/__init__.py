"""Where messages stand: the write-ahead log, the segments of each partition, and what keeps both in order."""
