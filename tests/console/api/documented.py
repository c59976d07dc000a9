"""The examples of docs/http.md: commands, and the answers that the page shows for them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from tests.console.api.asking import Answer, Asking

PAGE = Path(__file__).parents[3] / "docs" / "http.md"
BASE = "http://127.0.0.1:8080/api/v1/"


class Example(NamedTuple):
    """A command, and what the page says is answered; None where it says nothing."""

    command: str
    answer: Any


def examples(text: str) -> list[Example]:
    """All of them, in their order."""
    found: list[Example] = []
    for block in text.split("```")[1::2]:
        for part in block.split("\n$ ")[1:]:
            command, _, shown = part.partition("\n")
            found.append(Example(command, json.loads(shown) if shown.strip() else None))
    return found


class Memory:
    """Runs commands as curl would, and fills in what earlier answers gave."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask
        self._receipt = ""
        self._upload = ""

    def run(self, command: str) -> Answer:
        words = shlex.split(command.replace("RECEIPT", self._receipt).replace("UPLOAD", self._upload))
        assert words.pop(0) == "curl"
        method, body, headers, path = "", None, {}, ""
        while words:
            word = words.pop(0)
            if word == "-X":
                method = words.pop(0)
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            elif word == "--json":
                body = words.pop(0).encode()
                headers["Content-Type"] = "application/json"
            elif word == "--data-binary":
                body = words.pop(0).encode()
            else:
                assert word.startswith(BASE), word
                path = word.removeprefix(BASE)
        status, answer = self._ask.raw(method or ("GET" if body is None else "POST"), path, body, headers)
        if isinstance(answer, dict):
            self._upload = answer.get("upload_id", self._upload)
            messages = answer.get("messages") or [{}]
            self._receipt = messages[0].get("receipt", self._receipt)
        return status, answer


def shape(value: Any) -> Any:
    """What stays the same from run to run: names and kinds, not values."""
    if isinstance(value, dict):
        return {name: shape(within) for name, within in value.items()}
    if isinstance(value, list):
        return [shape(within) for within in value]
    return type(value).__name__
