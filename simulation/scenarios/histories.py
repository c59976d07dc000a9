"""Failures that other systems had, each as a scenario under its own name, with the faults that cause it.

kip-101                       a follower that knows a lower commit index than its log has becomes leader
kip-279                       leaders change twice, quickly, and both old ones return with entries of their own
kip-966                       the last replica standing loses power, and others return first
nats-power-failure            all lose power at once, on slow disks: acknowledged messages must be synced
nats-flipped-bit              a bit flips on one node of five: it does a full sync, and no message is lost
failed-fsync                  a sync fails: the node ends and recovers, and never trusts a second sync
redpanda-bufstream            aborted reads, moved offsets, duplicates and lost writes of transactions under failover
kip-890                       writers with an old epoch, and writes into partitions that were never added
rabbitmq-mirrored-queues      the nodes are partitioned, and queues are used on both sides
zookeeper-lost-answers        the coordinator's answers get lost after it has carried out the requests
zookeeper-paused-leader       a leader is paused through the end of its session and resumes with requests under way
sqs-fifo-deduplication        an id is remembered for five minutes, after its message was settled and across failover
"""

from __future__ import annotations

from typing import Final

from simulation.replicas.fault_menus import LEADERS, POWER
from simulation.replicas.log_scenarios import run_log_scenario
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.cluster_run import ClusterQueueRun, ClusterRun, size_of
from simulation.scenarios.consumers import Habits
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.zombie_producers import write_as_zombie
from simulation.world import Simulation

FIVE: Final = 5
NEARLY_FIVE_MINUTES_S: Final = 200.0  # Less than five minutes, because an answer may be late.


async def kip_101(simulation: Simulation, starter: Starter) -> RunResult:
    menu = ("forget_the_watermark", "forget_the_watermark", "slow_disk", "slow_links")
    return await run_log_scenario(simulation, menu, 3.0, at_once=False, size=size_of(simulation))


async def kip_279(simulation: Simulation, starter: Starter) -> RunResult:
    menu = ("fail_over_twice", "fail_over_twice", "cut_one_way", "slow_disk")
    return await run_log_scenario(simulation, menu, 3.0, at_once=False, size=size_of(simulation))


async def kip_966(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, ("lose_all_but_one", "lose_all_but_one", "power_cut", "stop_cleanly"))
    places = await run.begin(2)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    run.commit(1, 0.5)
    return await run.end(8.0, at_once=False)


async def nats_power_failure(simulation: Simulation, starter: Starter) -> RunResult:
    menu = ("power_cut_of_all", "power_cut_of_all_on_slow_disks", "power_cut_without_the_leader")
    run = ClusterRun(simulation, menu, size_of(simulation))
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.2)
    run.commit(1, 0.5)
    return await run.end(10.0, at_once=False)


async def nats_flipped_bit(simulation: Simulation, starter: Starter) -> RunResult:
    return await run_log_scenario(simulation, ("damage", "damage", "reset", "kill_one"), 2.0, at_once=False, size=FIVE)


async def failed_fsync(simulation: Simulation, starter: Starter) -> RunResult:
    menu = ("failed_sync", "failed_sync", "power_cut", "slow_disk", *("power_cut_after_failed_syncs",) * 2)
    run = ClusterRun(simulation, menu)
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    return await run.end(5.0)


async def redpanda_bufstream(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, (*LEADERS, "reset", "cut_from_clients", "power_cut_of_all"))
    places = await run.begin(4)
    run.write(places, plain=0, idempotent=1, transactional=4, pause_s=0.3)
    run.belong(2)
    return await run.end(8.0)


async def kip_890(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, (*LEADERS, "cut_from_clients"))
    places = await run.begin(3)
    run.write(places, plain=0, idempotent=0, transactional=3, pause_s=0.4)
    for number in range(2):
        run.context.act(write_as_zombie(run.context, f"zombie-{number}", places, 1.0))
    return await run.end(8.0)


async def rabbitmq_mirrored_queues(simulation: Simulation, starter: Starter) -> RunResult:
    cuts = ("cut_in_two", "cut_in_two", "cut_the_leader_from_followers", "cut_one_way", "cut_off", "cut_from_clients")
    # Faults that lose the answers of requests that were carried out.
    lost = ("reset", "reset", "reset", "slow_disk", "slow_links")
    run = ClusterQueueRun(simulation, cuts + lost, [laws.PLAIN, laws.ORDERED], size_of(simulation))
    clients = run.clients
    await clients.begin()
    clients.send(laws.PLAIN, 0.1, 0.1)
    clients.consume(laws.PLAIN, 3, 0.3)
    clients.send_in_lines(laws.ORDERED, 2, 0.5)
    clients.consume(laws.ORDERED, 2, 0.4)
    return await run.end(3.0)


async def zookeeper_lost_answers(simulation: Simulation, starter: Starter) -> RunResult:
    menu = (
        "lose_words_of_the_coordinator",
        "lose_words_of_the_coordinator",
        "lose_the_coordinator",
        "cut_from_the_coordinator",
        "expire_a_session",
        "kill_the_leader",
        "stuck_disk",
        "leave_who_is_counted_out",
        "leave_who_is_counted_out",
    )
    run = ClusterRun(simulation, menu, size_of(simulation))
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    return await run.end(4.0)


async def zookeeper_paused_leader(simulation: Simulation, starter: Starter) -> RunResult:
    menu = ("wake_a_deposed_leader", "wake_a_deposed_leader", "expire_a_session", "pause_one")
    run = ClusterRun(simulation, menu, size_of(simulation))
    places = await run.begin(3)
    run.write(places, plain=2, idempotent=1, transactional=1, pause_s=0.2)
    run.commit(1, 0.5)
    return await run.end(6.0, at_once=False)


async def sqs_fifo_deduplication(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, (*LEADERS, *POWER), [laws.ORDERED], size_of(simulation))
    clients = run.clients
    await clients.begin()
    clients.send_in_lines(laws.ORDERED, 4, 0.3, NEARLY_FIVE_MINUTES_S)
    clients.consume(laws.ORDERED, 4, 0.2, Habits(settle=0.9))
    return await run.end(8.0)


HISTORIES: Final[dict[str, Scenario]] = {
    "kip-101": kip_101,
    "kip-279": kip_279,
    "kip-966": kip_966,
    "nats-power-failure": nats_power_failure,
    "nats-flipped-bit": nats_flipped_bit,
    "failed-fsync": failed_fsync,
    "redpanda-bufstream": redpanda_bufstream,
    "kip-890": kip_890,
    "rabbitmq-mirrored-queues": rabbitmq_mirrored_queues,
    "zookeeper-lost-answers": zookeeper_lost_answers,
    "zookeeper-paused-leader": zookeeper_paused_leader,
    "sqs-fifo-deduplication": sqs_fifo_deduplication,
}
