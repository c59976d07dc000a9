"""Producers of messages with an attribute, for receivers with filters."""

from __future__ import annotations

import asyncio
from typing import Final

from simulation.checkers.queues import QueueOracle
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsClient, SqsRefusal, Unanswered, url_of

COLOURS: Final = ("red", "green", "blue")
# Two equivalent filters: a selector and a policy.
WISHES: Final = {"red": "colour = 'red'", "green": '{"colour": ["green"]}'}


def colour_of(key: str) -> str:
    """The colour of a message, with which its key ends."""
    return key.rpartition("-")[2]


async def send_coloured(context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float) -> None:
    chance = context.stream(name)
    client = SqsClient(context)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        colour = chance.choice(COLOURS)
        body = body_for(chance, f"{name}-{number}-{colour}")
        number += 1
        message = oracle.sending(key_of(body), queue, asyncio.get_running_loop().time())
        oracle.marked(message, body)
        attributes = {"colour": {"DataType": "String", "StringValue": colour}}
        try:
            said = await client.call(
                "SendMessage", QueueUrl=url_of(queue), MessageBody=body, MessageAttributes=attributes
            )
        except Unanswered:
            oracle.lost_sight(message)
        except SqsRefusal:
            oracle.refused(message)
        else:
            oracle.sent(message, str(said["MessageId"]), asyncio.get_running_loop().time())
