"""The bytes of a message: batches, records, varints, checksums, compression, markers and the seal.

Pure and hot: no clock, no I/O, and compiled by mypyc in one group. Every function takes `bytes` and refuses malformed
ones with a `LonghallError`; a length is checked before memory is allocated for it.
"""
