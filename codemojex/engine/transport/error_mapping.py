"""What the client raises, in the engine's words: which fault left the server untouched, and which may not have.

What the server refused is `Unavailable`, what it may have done is `UnknownOutcome`. An error reply's text begins with
its code. Nothing is sent here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import redis.exceptions as faults

from codemojex.engine.errors import (
    AccessDenied,
    EngineError,
    InvalidValue,
    Unavailable,
    UnknownOutcome,
    VersionFence,
    from_reply,
)
from codemojex.engine.keyspace import VERSION_KEY, WIRE_VERSION
from codemojex.engine.transport.url import Address

# Error replies of a server that did nothing and may do it later, or elsewhere. A write inside a script meets them at
# the script's first write only.
_NOT_NOW = {"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "BUSY", "UNBLOCKED"}


class Moved(Unavailable):
    """Another node serves the slot."""

    def __init__(self, text: str, address: Address) -> None:
        super().__init__(text)
        self.address = address


class Moving(Unavailable):
    """The slot's keys are on their way to another node."""


class Loading(Unavailable):
    """The server answered that it is still loading its data."""


class NeverSent(faults.ConnectionError):
    """No connection could be had, so the command did not leave."""


class Denied(NeverSent):
    """The server refused the user or the password."""


class FenceError(faults.RedisError):
    """Carries the version that was found through the client's connect path."""


async def translated(call: Awaitable[Any]) -> Any:  # a reply has no narrower type
    """The client's call with the engine's errors, and with every cancellation kept.

    Python 3.11's `asyncio.wait_for`, which the client writes through, swallows a cancellation that comes together with
    its result; a loop that is told to end would then go on for ever.
    """
    task = asyncio.current_task()
    asked = task.cancelling() if task else 0
    try:
        return await call
    except FenceError as error:
        raise VersionFence(str(error), WIRE_VERSION, VERSION_KEY) from None
    except Denied as error:
        text = "the server refuses the user or the password: give both in its address, user:password@host"
        raise AccessDenied(text) from error
    except (NeverSent, faults.AuthenticationError) as error:
        raise Unavailable(str(error)) from error
    except faults.BusyLoadingError as error:
        raise Loading(f"LOADING {error}") from error
    except (faults.ConnectionError, faults.TimeoutError) as error:
        raise UnknownOutcome(f"no answer: {error}") from error
    except (faults.DataError, UnicodeEncodeError) as error:  # of the packing, before anything leaves
        raise InvalidValue(
            f"an argument cannot be sent: {error}: use str that UTF-8 has, bytes, int or float"
        ) from None
    except faults.RedisError as error:
        raise as_error(error) from error
    finally:
        if task and task.cancelling() > asked:
            raise asyncio.CancelledError


def as_error(error: Exception) -> EngineError:
    """The engine's error for an error reply; its text begins with the reply's code, which the client takes off."""
    text = str(error)
    code = getattr(error, "status_code", None)
    if code and code != "ERR" and not text.startswith(code):
        text = f"{code} {text}"
    if isinstance(error, faults.MovedError):
        host, _, port = text.rpartition(" ")[2].rpartition(":")
        return Moved(text, Address(host, int(port)))
    first = text.partition(" ")[0]
    if first in ("ASK", "TRYAGAIN"):
        return Moving(f"{text}: the queue's slot is being moved")
    return Unavailable(text) if first in _NOT_NOW else from_reply(text)
