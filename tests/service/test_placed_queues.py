"""A queue in several wings looks like one: whoever sends, receives, settles and looks need not know where it is."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from longhall.cluster.rpc.operation import encode_call
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery, Outgoing, WriteBack
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service.queue_operations import CreateQueue, SendMessages, SettleMessages, SettleWithSends
from tests.service.house import House, live

ANY = QueueSettings(placement="any-host")
FIFO = QueueSettings(placement="parts", fifo=True, deduplication="id", deduplication_scope="group")


async def refused(work: object) -> Code:
    with pytest.raises(LonghallError) as caught:
        await work  # type: ignore[misc]
    return caught.value.code


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_any_host_takes_a_message_and_any_host_gives_it_out() -> None:
    async def play(house: House) -> None:
        view = await house.queues.create("q", ANY)
        assert view.settings.wings == (1, 2, 3)
        ids: list[str] = []
        for near in (1, 2, 3):
            house.reach.near = [near]
            ids += await house.send("q", *(b"%d-%d" % (near, number) for number in range(5)))
        assert len(set(ids)) == 15, "ids of different wings are different"
        assert [desk.depth("q").available for desk in house.desks.values()] == [5, 5, 5]
        with pytest.raises(LonghallError) as refusal:
            house.desk.depth("q")
        assert refusal.value.code is Code.QUEUE_MOVED, "the hall itself keeps nothing of it"
        assert (await house.queues.weigh("q")).available == 15
        house.reach.near = [2]
        first = await house.receive("q", 10)
        assert [one.body for one in first] == [b"2-%d" % number for number in range(5)], "the nearest first"
        assert (await house.queues.weigh("q")).in_flight == 5
        house.reach.near = [3]
        codes = await house.queues.settle("q", [one.receipt for one in reversed(first)])
        assert codes == [None] * 5
        assert sorted(await house.drain("q")) == sorted(b"%d-%d" % (near, n) for near in (1, 3) for n in range(5))
        assert (await house.queues.tally("q")).sends == 15

    live(play)


def test_only_what_was_certainly_not_taken_goes_to_the_next_wing() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        house.reach.near = [1]
        house.reach.away = {1}
        await house.send("q", b"a")
        assert house.desks[2].depth("q").available == 1
        house.reach.away, house.reach.lost = set(), {1}
        assert await refused(house.queues.send("q", [Outgoing(body=b"b")])) is Code.TIMED_OUT
        house.reach.lost = set()
        assert sorted(await house.drain("q")) == [b"a", b"b"], "it was taken once, whatever the sender was told"

    live(play)


def test_groups_stay_together_and_in_order() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", FIFO)
        sent: dict[str, list[bytes]] = {}
        for number in range(60):
            group = f"g{number % 7}"
            body = b"%d" % number
            await house.queues.send("q", [Outgoing(body=body, group=group, deduplication_id=str(number))])
            sent.setdefault(group, []).append(body)
        assert sum(desk.depth("q").available > 0 for desk in house.desks.values()) > 1, "they are spread"
        for group in sent:  # A repeat is known, wherever it comes in.
            again = Outgoing(body=b"again", group=group, deduplication_id=sent[group][0].decode())
            (told,) = await house.queues.send("q", [again])
            assert told.repeated
        seen: dict[str, list[bytes]] = {}
        while found := await house.receive("q", 3):
            for one in found:
                seen.setdefault(one.group, []).append(one.body)
            await house.queues.settle("q", [one.receipt for one in found])
        assert seen == sent

    live(play)


def test_a_batch_is_sorted_out_and_answered_in_its_order() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", FIFO)
        batch = [Outgoing(body=b"%d" % n, group=f"g{n}", deduplication_id=str(n)) for n in range(10)]
        lanes = [zlib.crc32(one.group.encode()) % 3 for one in batch]
        assert len(set(lanes)) == 3
        house.reach.away = {1}
        told = await house.queues.send("q", batch)
        assert [one.code is None for one in told] == [lane != 0 for lane in lanes], (
            "one wing that is away costs no other"
        )
        house.reach.away = set()
        assert sorted(await house.drain("q")) == sorted(
            one.body for one, lane in zip(batch, lanes, strict=True) if lane != 0
        )

    live(play)


def test_who_waits_waits_for_all_wings_and_gives_back_what_is_too_much() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        house.reach.near = [1]
        waiting = asyncio.ensure_future(house.receive("q", 1, wait_ms=10_000, lease_ms=600_000))
        await asyncio.sleep(1)
        for near in (3, 2):  # Both find the one who waits.
            house.reach.near = [near]
            await house.send("q", b"%d" % near)
        (found,) = await waiting
        assert found.body in (b"3", b"2")
        await asyncio.sleep(1)
        (other,) = await house.receive("q", 10)
        assert {found.body, other.body} == {b"3", b"2"}, "nothing stays leased to nobody"
        assert await house.queues.settle("q", [found.receipt, other.receipt]) == [None, None]
        began = asyncio.get_running_loop().time()
        assert await house.receive("q", 1, wait_ms=2_000) == []
        assert asyncio.get_running_loop().time() - began >= 2
        waiters = [life.hall.running_queue("q").waiters for life in house.wings.values()]  # type: ignore[union-attr]
        assert all(waiter.future.done() for one in waiters for waiter in one._waiting), "no receiver waits any more"

    live(play)


def test_what_is_given_back_was_no_attempt() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", ANY)
        letters = DeadLetters(queue="dead", attempts_max=1)
        await house.queues.create("q", QueueSettings(placement="any-host", dead_letters=letters))
        for _ in range(3):
            waiting = asyncio.ensure_future(house.receive("q", 1, wait_ms=10_000, lease_ms=600_000))
            await asyncio.sleep(1)
            await asyncio.gather(*(desk.send("q", [Outgoing(body=b"message")]) for desk in house.desks.values()))
            (found,) = await waiting
            await asyncio.sleep(1)
            others = await house.receive("q") + await house.receive("q")
            assert len(others) == 2, "what another wing had leased is there for the next one"
            assert [one.attempts for one in (found, *others)] == [1, 1, 1]
            assert (await house.queues.weigh("dead")).available == 0
            assert await house.queues.settle("q", [one.receipt for one in (found, *others)]) == [None] * 3
        assert house.reach.cancelled, "several groups were asked at once"

    live(play)


def test_who_goes_away_while_waiting_takes_nothing() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        waiting = asyncio.ensure_future(house.receive("q", 1, wait_ms=10_000, lease_ms=600_000))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(1)
        for near in (1, 2, 3):
            house.reach.near = [near]
            await house.send("q", b"%d" % near)
        assert sorted(await house.drain("q")) == [b"1", b"2", b"3"]

    live(play)


def test_a_wing_without_a_leader_holds_nobody_up() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        for near in (1, 2, 3):
            house.reach.near = [near]
            await house.send("q", b"%d" % near)
        house.reach.near, house.reach.away = [1], {1}
        assert sorted(await house.drain("q")) == [b"2", b"3"]
        assert await house.receive("q", wait_ms=500) == []
        house.reach.away = {1, 2, 3}
        assert await refused(house.receive("q")) is Code.NOT_READY
        assert await refused(house.receive("q", wait_ms=500)) is Code.NOT_READY
        house.reach.away = set()
        assert await house.drain("q") == [b"1"]

    live(play)


def test_a_settle_with_sends_reaches_any_group() -> None:
    async def play(house: House) -> None:
        for name in ("q", "results"):
            await house.queues.create(name, ANY)
        await house.desk.create("central", QueueSettings())
        for near in (1, 2):
            house.reach.near = [near]
            await house.send("q", b"%d" % near)
        house.reach.near = [1]
        (first,) = await house.receive("q", 1)
        house.reach.near = [2]
        (second,) = await house.receive("q", 1)

        def settle(queue: str, *deliveries: Delivery) -> SettleWithSends:
            back = WriteBack(queue=queue, messages=[Outgoing(body=b"done " + one.body) for one in deliveries])
            return SettleWithSends("q", [one.receipt for one in deliveries], [back])

        call = house.service.dispatch
        assert await refused(call(settle("nowhere", first))) is Code.UNKNOWN_QUEUE
        assert await refused(call(settle("nowhere", first, second))) is Code.UNKNOWN_QUEUE
        await call(settle("central", first))
        await call(settle("results", second))
        await asyncio.sleep(1)
        assert (await house.drain("central"), await house.drain("results")) == ([b"done 1"], [b"done 2"])
        assert (await house.queues.weigh("q")).in_flight == 0

    live(play)


def test_receipts_of_others_are_refused_one_by_one() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await house.queues.create("r", ANY)
        await house.send("q", b"a")
        await house.send("r", b"b")
        (mine,) = await house.receive("q")
        (other,) = await house.receive("r")
        wrong = ["", "nothing", "9.x", "1.x", mine.receipt.partition(".")[2], other.receipt, "²." + mine.receipt]
        codes = await house.queues.settle("q", [*wrong, mine.receipt])
        assert codes == [Code.INVALID_RECEIPT] * len(wrong) + [None]
        changed = await house.queues.change_lease("r", [("x", 1), (other.receipt, 0)])
        assert changed == [Code.INVALID_RECEIPT, None]
        assert await house.drain("r") == [b"b"]

    live(play)


def test_dead_letters_stay_in_the_wing_and_come_back_from_there() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", ANY)
        letters = DeadLetters(queue="dead", attempts_max=1)
        await house.queues.create("work", QueueSettings(placement="any-host", dead_letters=letters))
        for near in (1, 2, 3):
            house.reach.near = [near]
            await house.send("work", *(b"%d-%d" % (near, number) for number in range(2)))
        for _ in range(2):
            while found := await house.receive("work"):
                await house.queues.change_lease("work", [(one.receipt, 0) for one in found])
        await asyncio.sleep(1)
        assert (await house.queues.weigh("dead")).available == 6
        page = await house.queues.letters("dead", 1)
        seen = list(page.letters)
        while page.next_from:
            page = await house.queues.letters("dead", 1, page.next_from)
            seen += page.letters
        assert len({letter.message_id for letter in seen}) == 6
        one = await house.queues.edit_letter("dead", seen[-1].message_id, b"mended")
        assert (await house.queues.letter("dead", one.message_id)).body == b"mended"
        assert await refused(house.queues.letter("dead", "nobody")) is Code.UNKNOWN_MESSAGE
        move = await house.queues.start_move("dead", "", 0)
        assert move.task_id.count("+") == 2
        await asyncio.sleep(5)
        (told,) = await house.queues.list_moves("dead")
        assert (told.task_id, told.state, told.moved) == (move.task_id, "COMPLETED", 6)
        assert (await house.queues.weigh("work")).available == 6
        assert await refused(house.queues.start_move("dead", "elsewhere", 0)) is Code.UNKNOWN_QUEUE

    live(play)


def test_a_share_goes_where_its_dead_letters_are() -> None:
    async def play(house: House) -> None:
        dead = await house.queues.create("dead", QueueSettings(placement="share"))
        house.reach.share = 3
        letters = DeadLetters(queue="dead", attempts_max=1)
        work = await house.queues.create("work", QueueSettings(placement="share", dead_letters=letters))
        assert work.settings.wings == dead.settings.wings == (1,)
        other = await house.queues.create("other", QueueSettings(placement="share"))
        assert other.settings.wings == (3,)

    live(play)


def test_pages_go_through_all_wings() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="parts", settled="keep"))
        await house.send("q", *numbered(20))
        seen: list[bytes] = []
        place: int | str = ""
        while True:
            page = await house.queues.peek("q", 3, place)
            seen += [one.delivery.body for one in page.messages]
            place = page.next
            if not place:
                break
        assert sorted(seen, key=int) == numbered(20)
        assert await refused(house.queues.peek("q", 3, "7/")) is Code.INVALID_REQUEST
        taken = await house.receive("q", 5)
        leased: list[bytes] = []
        place = ""
        while page := await house.queues.leased("q", 2, place):
            leased += [one.delivery.body for one in page.messages]
            place = page.next
            if not place:
                break
        assert sorted(leased) == sorted(one.body for one in taken)
        found = await house.queues.search("q", text="19")
        while not found.messages and found.next:
            found = await house.queues.search("q", text="19", from_offset=found.next)
        assert [one.delivery.body for one in found.messages] == [b"19"]
        await house.queues.settle("q", [one.receipt for one in taken])
        await house.drain("q")
        await house.queues.rewind("q", "start")
        assert sorted(await house.drain("q"), key=int) == numbered(20)

    live(play)


def test_large_messages_go_in_parts_to_one_wing() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="any-host", whole_bytes_max=1 << 22))
        house.reach.near = [2]
        upload = await house.queues.begin("q")
        house.reach.near = [3]
        for number in range(3):
            await house.queues.add("q", upload, number, b"%d" % number * 1000)
        accepted = await house.queues.finish("q", upload, 3, Outgoing(body=b""))
        assert accepted.code is None
        assert house.desks[2].depth("q").available == 1
        (found,) = await house.receive("q")
        body = found.body or b"".join([await house.queues.read_part("q", found.receipt, n) for n in range(found.parts)])
        assert body == b"".join(b"%d" % number * 1000 for number in range(3))
        assert await refused(house.queues.add("q", "nothing", 0, b"x")) is Code.INVALID_REQUEST
        other = await house.queues.begin("q")
        await house.queues.abort("q", other)

    live(play)


def test_what_is_set_of_a_queue_is_set_in_all_its_wings() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="parts", messages_max=30))
        assert [desk.view("q").settings.messages_max for desk in house.desks.values()] == [10] * 3  # type: ignore[union-attr]
        before = house.queues.view("q")
        assert before is not None
        await house.queues.configure("q", QueueSettings(placement="parts", lease_ms=5_000))
        for desk in (house.desk, *house.desks.values()):
            view = desk.view("q")
            assert view is not None
            assert (view.settings.lease_ms, view.settings.wings) == (5_000, (1, 2, 3))
        await house.queues.switch("q", True)
        await house.send("q", b"a")
        assert await house.receive("q") == []
        await house.queues.switch("q", False)
        await house.send("q", *numbered(5))
        assert (await house.queues.weigh("q")).available == 6
        await house.queues.purge("q")
        assert (await house.queues.weigh("q")).available == 0
        await house.queues.delete("q")
        assert all(desk.view("q") is None for desk in (house.desk, *house.desks.values()))
        await house.queues.create("q", QueueSettings(placement="share"))
        assert [desk.view("q") is not None for desk in house.desks.values()] == [True, False, False]

    live(play)


def test_a_purge_that_failed_in_one_group_can_be_repeated_at_once() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="parts"))
        await house.send("q", *numbered(6))
        house.reach.away.add(2)
        assert await refused(house.queues.purge("q")) is Code.NOT_READY
        house.reach.away.clear()
        await house.queues.purge("q")
        assert (await house.queues.weigh("q")).available == 0
        assert await refused(house.queues.purge("q")) is Code.PURGE_RUNNING

    live(play)


def test_an_earlier_life_of_a_name_is_not_taken_for_the_queue() -> None:
    async def play(house: House) -> None:
        view = await house.queues.create("q", ANY)
        await house.send("q", b"old")
        await house.desk.delete("q")  # And nobody gets to clear the wings.
        await house.desk.create("q", view.settings)
        house.reach.leads = False
        assert await refused(house.queues.send("q", [Outgoing(body=b"new")])) is Code.NOT_READY
        assert await refused(house.receive("q")) is Code.NOT_READY
        assert await refused(house.queues.weigh("q")) is Code.NOT_READY

    live(play)


def test_a_node_that_knows_an_earlier_queue_of_the_name_waits_until_it_knows_the_newest() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="share"))
        old = house.placed.known("q")
        await house.queues.delete("q")
        house.reach.share = 2
        await house.queues.create("q", QueueSettings(placement="share"))
        house.reach.leads = False  # As a follower that has not applied the last entries of the catalogue.
        newest, house.placed._find = house.placed._find, lambda name: old
        sending = house.queues.send("q", [Outgoing(body=b"1")])
        await asyncio.sleep(1.0)
        assert not sending.done
        house.placed._find = newest
        assert [one.code for one in await sending] == [None]
        house.reach.leads = True
        assert await house.drain("q") == [b"1"]

    live(play)


def test_a_wing_that_has_lost_it_is_furnished_anew() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await house.desks[2].delete("q")
        house.reach.near = [2]
        house.reach.leads = False
        assert await refused(house.queues.send("q", [Outgoing(body=b"a")])) is Code.NOT_READY
        house.reach.leads = True
        await house.send("q", b"a")
        assert house.desks[2].depth("q").available == 1

    live(play)


def test_while_no_wing_can_be_asked_its_queue_is_not_taken_for_the_halls_own() -> None:
    """Nothing is stored here, found empty, or called a stranger's receipt."""

    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await house.send("q", b"a")
        (found,) = await house.receive("q")
        house.reach.away = {1, 2, 3}
        for work in (
            house.queues.send("q", [Outgoing(body=b"b")]),
            house.receive("q"),
            house.queues.settle("q", [found.receipt]),
            house.queues.weigh("q"),
        ):
            assert await refused(work) is Code.NOT_READY
        house.reach.away = set()
        assert await house.queues.settle("q", [found.receipt]) == [None]

    live(play)


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(placement="any-host", fifo=True),
        QueueSettings(placement="any-host", deduplication="id"),
        QueueSettings(placement="any-host", one_by_one=True),
        QueueSettings(placement="any-host", delivery="at-most-once"),
        QueueSettings(placement="parts", fifo=True, deduplication="id"),
        QueueSettings(placement="parts", messages_max=10, parts_max=4),
        QueueSettings(placement="parts", dead_letters=DeadLetters(queue="hall"), whole_bytes_max=1 << 30),
        QueueSettings(placement="parts", audit="deliveries"),
        QueueSettings(placement="nowhere"),
    ],
)
def test_what_a_queue_in_wings_cannot_promise_is_refused(settings: QueueSettings) -> None:
    async def play(house: House) -> None:
        await house.queues.create("hall", QueueSettings())
        assert await refused(house.queues.create("q", settings)) is Code.INVALID_CONFIGURATION
        assert house.queues.view("q") is None

    live(play)


def test_what_the_hall_keeps_is_as_it_was() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings())
        await house.send("q", *numbered(3))
        assert house.reach.asked == []
        assert await house.drain("q") == numbered(3)
        await house.queues.create("w", ANY)
        wrong = [
            house.queues.configure("q", ANY),
            house.queues.configure("w", QueueSettings(placement="hall")),
            house.queues.configure("q", QueueSettings(dead_letters=DeadLetters(queue="w"), whole_bytes_max=1 << 30)),
        ]
        assert [await refused(work) for work in wrong] == [Code.INVALID_CONFIGURATION] * 3
        assert await refused(house.queues.fork("w", "x")) is Code.NOT_KEPT
        unlike = CreateQueue("x", QueueSettings(placement="share"), "w")
        assert await refused(house.service.dispatch(unlike)) is Code.INVALID_CONFIGURATION
        assert await refused(house.queues.create("w", ANY)) is Code.QUEUE_EXISTS

    live(play)


def test_a_queue_without_a_placement_goes_where_it_works() -> None:
    async def play(house: House) -> None:
        house.reach.spreads = True
        house.reach.share = 2
        letters = DeadLetters(queue="dead")
        made = {
            "one": QueueSettings(),
            "several": QueueSettings(partitions=2),
            "audited": QueueSettings(audit="deliveries"),
            "growing": QueueSettings(parts_max=4, messages_max=100),
            "bounded": QueueSettings(partitions=3, messages_max=10),
            "said": QueueSettings(placement="hall"),
            "dead": QueueSettings(),
            "dying": QueueSettings(dead_letters=letters, partitions=3),
        }
        for name, settings in made.items():
            if name == "dying":
                house.reach.share = 3  # Its dead letters are elsewhere, and it goes there.
            await house.queues.create(name, settings)
        found = {name: house.main.hall.running_queue(name) for name in made}
        placed = {name: (one.settings.placement, one.settings.wings) for name, one in found.items() if one is not None}
        assert placed == {
            "one": ("share", (2,)),
            "several": ("parts", (2, 1)),
            "audited": ("hall", ()),
            "growing": ("hall", ()),
            "bounded": ("share", (2,)),
            "said": ("hall", ()),
            "dead": ("share", (2,)),
            "dying": ("share", (2,)),
        }
        for name in made:
            await house.send(name, *numbered(5))
            assert sorted(await house.drain(name)) == numbered(5)
        await house.queues.configure("one", QueueSettings(lease_ms=1000))  # It says nothing of the placement.
        assert house.desks[2].view("one").settings.lease_ms == 1000  # type: ignore[union-attr]
        wrong = house.queues.configure("several", QueueSettings(audit="deliveries"))
        assert await refused(wrong) is Code.INVALID_CONFIGURATION

    live(play)


def test_a_node_that_does_not_know_a_new_queue_yet_reaches_it_through_the_leader() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="share"))
        served, _ = house.service._serve(9, encode_call(SendMessages("q", [Outgoing(body=b"1")])))
        assert [one.code for one in await served] == [None]
        assert await house.drain("q") == [b"1"]

    live(play)


def test_placed_queues_are_received_from_by_weight_with_others() -> None:
    async def play(house: House) -> None:
        await house.queues.create("here", QueueSettings())
        await house.queues.create("there", ANY)
        for name in ("here", "there"):
            await house.send(name, *[b"%s %d" % (name.encode(), number) for number in range(8)])
        weights = {"here": 1, "there": 3}
        found = await house.queues.receive_any(weights, 8, 0, 30_000)
        names = [name for name, _ in found]
        assert (names.count("here"), names.count("there")) == (2, 6)
        assert all(one.body.startswith(name.encode()) for name, one in found)
        for name, one in found:
            assert await house.service.dispatch(SettleMessages(name, [one.receipt])) == [None]
        rest = await house.queues.receive_any(weights, 20, 0, 30_000)
        assert len({one.body for _, one in [*found, *rest]}) == 16
        assert await house.queues.receive_any(weights, 1, 50, 30_000) == []
        assert await refused(house.queues.receive_any({"there": 1, "nowhere": 1}, 1, 0, 1000)) is Code.UNKNOWN_QUEUE

    live(play)


def test_a_receiver_of_several_waits_for_a_placed_queue() -> None:
    async def play(house: House) -> None:
        await house.queues.create("here", QueueSettings())
        await house.queues.create("there", ANY)
        waiting = asyncio.ensure_future(_from_any(house))
        await asyncio.sleep(1)
        await house.send("there", b"late")
        ((name, one),) = await waiting
        assert (name, one.body) == ("there", b"late")

    live(play)


async def _from_any(house: House) -> list[tuple[str, Delivery]]:
    found: list[tuple[str, Delivery]] = await house.queues.receive_any({"here": 1, "there": 1}, 5, 20_000, 30_000)
    return found
