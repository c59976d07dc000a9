"""The bytes of a message: batches, records, varints, checksums, compression, markers and the seal.

Pure and hot: no clock, no I/O, and compiled by mypyc in one group. Everything here takes `bytes` and refuses malformed
ones with a `LonghallError`; a length is checked before anything is allocated by it.
"""
