"""What a user sees of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError


def refused(call: Callable[..., Any], **arguments: Any) -> tuple[str, int, str]:
    """The code, the status and the class of the exception."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"], type(caught.value).__name__


def why(call: Callable[..., Any], **arguments: Any) -> str:
    """The code alone."""
    return refused(call, **arguments)[0]


def said(call: Callable[..., Any], **arguments: Any) -> str:
    """The message alone."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    message: str = caught.value.response["Error"]["Message"]
    return message
