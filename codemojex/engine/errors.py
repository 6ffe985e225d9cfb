"""Every fault the engine raises, in one tree.

    EngineError
    ├── InvalidInput            the caller's mistake; nothing was sent
    │   ├── InvalidId           not a branded id, or of the wrong kind
    │   ├── InvalidName         a queue, stream or dedup key outside its alphabet
    │   ├── InvalidValue        a number or size out of range
    │   ├── CrossSlot           a key outside the queue's slot
    │   ├── FlowTooDeep         a flow with more levels than the protocol allows
    │   └── FlowCycle           a flow that names one job twice
    ├── ScriptDefect            a Lua file breaks the rules of the loader, or does not compile
    ├── CommandRefused          the server's rules said no; nothing was written
    │   ├── WrongKind           EMQKIND
    │   ├── StaleToken          EMQSTALE: the lease went to somebody else
    │   ├── WrongState          EMQSTATE
    │   ├── Locked              EMQLOCK
    │   └── AtCeiling           EMQRATE
    ├── WorkCancelled           somebody asked this work to end
    ├── EffectFailed            an effect's body raised; its job is not settled
    ├── StreamAhead             a stream stays ahead of every id that is minted for it
    ├── Contended               a compare-and-swap lost every bounded try
    ├── LeaseLost               this process no longer owns its node number
    ├── OutOfNodes              every node number is leased
    ├── ServerError             any other error reply
    │   └── ServerFull          `maxmemory` is reached under noeviction
    ├── ConnectionFault
    │   ├── Unavailable         the command was not sent, or the server cannot take it now
    │   │   └── AccessDenied    the server refuses the user or the password
    │   └── UnknownOutcome      the command was sent and no answer came: it may have run
    └── VersionFence            another protocol version owns this server

Normal outcomes (duplicate, empty, limited) are values, never exceptions.
"""

from __future__ import annotations


class EngineError(Exception):
    """Anything the engine raises."""


class InvalidInput(EngineError, ValueError):
    """The call itself is wrong; nothing was sent."""


class InvalidId(InvalidInput):
    """Not a branded id. `reason` is one of type, length, namespace, charset, range, kind, stream id."""

    def __init__(self, value: object, reason: str, remedy: str) -> None:
        super().__init__(f"{value!r:.200} is not a valid id ({reason}): {remedy}")
        self.value = value
        self.reason = reason


class InvalidName(InvalidInput):
    """A name outside its alphabet."""

    def __init__(self, what: str, value: object, rule: str) -> None:
        super().__init__(f"{what} {value!r} is not valid: {rule}")
        self.value = value


class InvalidValue(InvalidInput):
    """A number or a size out of its range."""


class CrossSlot(InvalidInput):
    """A key that lies outside the queue's slot, so one script cannot touch both."""


class FlowTooDeep(InvalidInput):
    """A flow has more levels than the protocol allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the flow has more than {limit} levels: make it flatter, or let a job add a flow of its own")
        self.limit = limit


class FlowCycle(InvalidInput):
    """A flow names one job twice, so it would wait for itself or count one child for two."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the flow names {job_id} more than once: give every job an id of its own")
        self.job_id = job_id


class ScriptDefect(EngineError):
    """A Lua file breaks the rules of the loader (a header line missing, an include unknown), or does not compile."""


class ServerError(EngineError):
    """The server answered with an error; the command changed nothing unless the text says so."""


class ServerFull(ServerError):
    """The server has reached `maxmemory` under noeviction: free memory or raise the limit, then try again."""


class CommandRefused(ServerError):
    """The protocol's rules refused the command before its first write."""


class WrongKind(CommandRefused):
    """EMQKIND: the id's namespace is not the one this command works on."""


class StaleToken(CommandRefused):
    """EMQSTALE: the token is not the job's current one: the lease lapsed and another claim owns it."""


class WrongState(CommandRefused):
    """EMQSTATE: the queue or job is not in the state the command needs."""


class Locked(CommandRefused):
    """EMQLOCK: a holder protects the job."""


class AtCeiling(CommandRefused):
    """EMQRATE: the queue's concurrency ceiling is reached."""


class WorkCancelled(EngineError):
    """Somebody asked this work to end, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EffectFailed(EngineError):
    """An effect's body raised inside the settlement script; its job is not settled."""


class StreamAhead(EngineError):
    """A stream stays ahead of every id that this process mints for it: another writer's clock runs away."""


class Contended(EngineError):
    """A compare-and-swap lost every one of its bounded tries to other writers; nothing was written."""


class LeaseLost(EngineError):
    """This process no longer owns its node number and must not mint ids."""


class OutOfNodes(EngineError):
    """Every node number is leased."""


class ConnectionFault(EngineError):
    """The connection, not the command, is the problem."""


class Unavailable(ConnectionFault):
    """The server cannot be reached or cannot take commands now; the command did not run."""


class AccessDenied(Unavailable):
    """The server refuses the user or the password, or wants one; the address has to be mended, nothing was sent."""


class UnknownOutcome(ConnectionFault):
    """The command was sent and no answer came: it may or may not have run. Never repeat it blindly."""


class VersionFence(EngineError):
    """The server belongs to another version of the protocol."""

    def __init__(self, found: str, expected: str, key: str) -> None:
        super().__init__(
            f"this server speaks {found!r} and this engine {expected!r}: run the release that matches, "
            f"or, when no other process uses the server, delete the key {key} and connect again"
        )
        self.found = found
        self.expected = expected


_CLASSES: dict[str, type[CommandRefused]] = {
    "EMQKIND": WrongKind,
    "EMQSTALE": StaleToken,
    "EMQSTATE": WrongState,
    "EMQLOCK": Locked,
    "EMQRATE": AtCeiling,
}


def from_reply(text: str) -> ServerError:
    """The exception of an error reply, by the reply's first word."""
    first = text.split(" ", 1)[0]
    if first in _CLASSES:
        return _CLASSES[first](text)
    if first == "OOM" or "OOM command not allowed" in text:
        return ServerFull(f"{text}: free memory or raise maxmemory, then try again")
    return ServerError(text)
