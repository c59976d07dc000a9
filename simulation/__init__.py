"""A simulated world in one process, by seed: virtual time, disks that lose what was not synced, links that are cut.

Code that uses the ports of `world` runs here unchanged. The same seed gives the same run, event by event; `trace`
proves it.
"""
