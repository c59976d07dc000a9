"""Operations that wait are refused when their client loses its permission, and not otherwise."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.pending import Pending, completed
from longhall.cluster.rpc.operation import Caller
from longhall.directory.accounts import Tenant, User, entry_of
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.errors import Code, LonghallError
from longhall.front.guard import AccessGuard
from longhall.front.identity import ADMINISTRATOR_KIND, USER_KIND
from longhall.front.waiting_calls import WaitingCalls
from longhall.queues.messages import Delivery
from longhall.service.queue_operations import ReceiveMessages

OPERATION = ReceiveMessages("q", 1)
ANN = Caller("ann", "127.0.0.1", "default", USER_KIND)


def _refuse(*_: object) -> None:
    raise LonghallError(Code.ACCESS_REFUSED, "no more")


def test_a_reply_that_is_there_does_not_wait() -> None:
    calls = WaitingCalls(_refuse)
    done: Pending[list[Delivery]] = completed([])
    assert calls.add(OPERATION, ANN, done) is done
    assert len(calls) == 0


def test_a_reply_and_an_error_come_through() -> None:
    calls = WaitingCalls(lambda operation, caller: None)
    first: Pending[list[Delivery]] = Pending()
    second: Pending[list[Delivery]] = Pending()
    replies = [calls.add(OPERATION, ANN, first), calls.add(OPERATION, ANN, second)]
    calls.check()
    assert not replies[0].done
    first.complete([])
    second.fail(LonghallError(Code.UNKNOWN_QUEUE, "gone"))
    assert replies[0].result() == []
    with pytest.raises(LonghallError, match="gone"):
        replies[1].result()
    assert len(calls) == 0


def test_a_refusal_gives_up_what_is_under_way() -> None:
    calls = WaitingCalls(_refuse)
    under_way: Pending[list[Delivery]] = Pending()
    given_up: list[bool] = []
    under_way.when_cancelled(lambda: given_up.append(True))
    reply = calls.add(OPERATION, ANN, under_way)
    calls.check()
    with pytest.raises(LonghallError, match="no more"):
        reply.result()
    assert given_up == [True]
    assert len(calls) == 0


def test_a_client_that_goes_away_gives_up_what_is_under_way() -> None:
    calls = WaitingCalls(_refuse)
    under_way: Pending[list[Delivery]] = Pending()
    reply = calls.add(OPERATION, ANN, under_way)
    reply.cancel()
    assert isinstance(under_way.error, asyncio.CancelledError)
    assert len(calls) == 0


def _guarded(*puts: DirectoryEntry) -> tuple[Directory, AccessGuard]:
    directory = Directory()
    users = [entry_of("ann", User("acme")), entry_of("root", User("acme", administrator=True))]
    directory.apply(DirectoryChanged(put=[entry_of("acme", Tenant()), *users, *puts], removed=[]))
    return directory, AccessGuard(directory, lambda: 1_000, lambda name: None, authenticates=lambda: True)


@pytest.mark.parametrize(
    ("event", "refused"),
    [
        (DirectoryChanged(put=[entry_of("root", User("acme", False, True))], removed=[]), {"root"}),
        (DirectoryChanged(put=[entry_of("root", User("acme"))], removed=[]), {"root"}),
        (DirectoryChanged(put=[entry_of("acme", Tenant(enabled=False))], removed=[]), {"root"}),
        (DirectoryChanged(put=[entry_of("bob", User("acme"))], removed=[]), set()),
        (DirectoryChanged(put=[DirectoryEntry("session", "x", b"")], removed=[]), set()),
    ],
)
def test_administrators_lose_it_too(event: DirectoryChanged, refused: set[str]) -> None:
    directory, guard = _guarded()
    replies = {}
    for name in ("root", "AKIAOFTHEFILE"):
        caller = Caller(name, "127.0.0.1", "acme", ADMINISTRATOR_KIND)
        under_way: Pending[list[Delivery]] = Pending()
        replies[name] = guard.watch(OPERATION, caller, under_way)
    directory.apply(event)
    assert {name for name, reply in replies.items() if reply.done} == refused
