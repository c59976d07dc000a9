"""The faults that a scenario may draw, by name: see `host_faults`, `link_faults`, `disk_faults` and
`stranger_faults`.
"""

from __future__ import annotations

from typing import Final

EVERYTHING: Final = (
    "kill_the_leader",
    "kill_one",
    "kill_all",
    "power_cut",
    "power_cut_in_the_middle",
    "power_cut_of_all",
    "power_cut_of_all_on_slow_disks",
    "pause_the_leader",
    "pause_one",
    "cut_the_leader_from_followers",
    "cut_one_way",
    "cut_off",
    "cut_from_clients",
    "cut_from_the_coordinator",
    "lose_words_of_the_coordinator",
    "lose_the_coordinator",
    "expire_a_session",
    "reset",
    "slow_links",
    "slow_disk",
    "stuck_disk",
    "full_disk",
    "failed_sync",
    "stop_cleanly",
    "restart_one_after_another",
    "clock_jump",
    "kill_in_quick_succession",
    "strangers_knock",
)
# The leader dies, stops and is cut off.
LEADERS: Final = (
    "kill_the_leader",
    "pause_the_leader",
    "cut_the_leader_from_followers",
    "cut_from_the_coordinator",
    "kill_in_quick_succession",
    "stop_cleanly",
)
STRANGERS: Final = (*("strangers_knock",) * 4, *LEADERS, "reset")
# Faults beside the changes of the cluster operator.
MOVERS: Final = ("kill_one", "reset", "cut_one_way", "slow_disk", "lose_words_of_the_coordinator", "stop_cleanly")
ELECTIONS: Final = (
    "kill_the_leader",
    "pause_the_leader",
    "cut_the_leader_from_followers",
    "cut_from_the_coordinator",
    "kill_in_quick_succession",
    "power_cut_of_all",
    "power_cut_of_all_on_slow_disks",
    "power_cut_without_the_leader",
    "leave_who_hears_least",
    "cut_one_way",
    "slow_disk",
)
# The complete replicas are away during an election.
SURVIVORS: Final = ("power_cut_without_the_leader", "leave_who_hears_least", "leave_who_is_counted_out")
DAMAGE: Final = ("damage", "damage", "damage_the_tail", "reset", "slow_disk")
FLEET_DAMAGE: Final = ("damage", "damage_a_segment", "damage_a_segment", "reset", "kill_the_leader")
# Old segments are damaged while leaders change, so that the next leader reads them from its disk.
QUEUE_DAMAGE: Final = (*("damage_a_segment",) * 5, "kill_the_leader", "stop_cleanly", "reset")
# Reads, or the creation of files, fail while leaders change.
READS: Final = (*("failed_reads",) * 4, "kill_the_leader", "kill_one", "stop_cleanly", "power_cut", "slow_disk")
CREATES: Final = (*("nothing_new",) * 3, "kill_the_leader", "kill_one", "stop_cleanly", "power_cut", "slow_disk")
# One host loses and misdirects synced writes; the others lose nothing.
LIES: Final = ("lost_writes", "misdirected_writes", "misdirected_writes", "kill_the_leader", "reset", "slow_links")
LOST_HOSTS: Final = ("replaced_disk", "replaced_disk", "lost_host", "kill_the_leader", "kill_one", "slow_links")
ROLLED_BACK: Final = ("rolled_back", "rolled_back", "rolled_back_first", "kill_the_leader", "stop_cleanly", "reset")
COPIES: Final = ("copied", "copied", "kill_the_leader", "cut_from_the_coordinator")
STALLED_CLOCKS: Final = (
    *("stalled_clock", "clock_ahead") * 3,
    "kill_the_leader",
    "pause_the_leader",
    "cut_the_leader_from_followers",
    "slow_disk",
)
POWER: Final = ("power_cut", "power_cut_in_the_middle", "power_cut_of_all", "power_cut_of_all_on_slow_disks")
# Oracles check leases and delays by the clients' clock, so no host's clock may change.
COUNTERS: Final = tuple(name for name in EVERYTHING if name != "clock_jump")
# Wing processes also die alone, and deposed leaders that have not noticed serve recreated names.
WINGS: Final = (*COUNTERS, *("kill_a_ward",) * 3, *("cut_from_the_coordinator",) * 3)
# Coordinators die with decided transactions whose markers are missing.
TRANSACTIONS: Final = (*WINGS, *("kill_between_outcome_and_markers",) * 8)
# Wings are away for a moment while their queues are deleted and recreated elsewhere; leaders are rarely cut off.
NAMESAKES: Final = (*("kill_a_ward",) * 4, "kill_one", "power_cut", "pause_one", "cut_one_way", "stop_cleanly")
LINES: Final = (*LEADERS, *POWER, "cut_from_clients", "cut_one_way", "reset", "expire_a_session")
# A hall without any record starts with the clock of the first node, so at least one node keeps running.
CLOCKS: Final = (
    "clock_jump",
    "clock_jump",
    "kill_the_leader",
    "pause_the_leader",
    "cut_from_the_coordinator",
    "expire_a_session",
    "stop_cleanly",
    "reset",
)
