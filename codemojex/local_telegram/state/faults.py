"""Misfortunes on request: what goes wrong between a bot and Telegram, scripted one by one or random with a seed.

A fault is taken by the next matching calls, in the order in which faults were added, and is gone after `times`.
`lost` is the nasty one: the call is applied and the answer never arrives. Nothing here happens unasked.
"""

import random
from dataclasses import dataclass

from codemojex.local_telegram.errors import ApiError, ControlError, bad_request, too_many_requests

KINDS = ("429", "400", "403", "500", "html502", "cut", "lost", "slow", "duplicate", "reorder")
OF_UPDATES = ("duplicate", "reorder")
FAULTS_LIMIT = 1000


@dataclass
class InjectedFault:
    """One misfortune. `method` "*" is any method; `chat_id` None is any chat; duplicate and reorder mean getUpdates."""

    method: str
    kind: str
    times: int = 1
    retry_after: int = 1
    description: str | None = None
    chat_id: int | None = None
    delay_s: float = 1.0

    def error(self) -> ApiError | None:
        """The JSON answer of the kinds that have one."""
        match self.kind:
            case "429":
                return too_many_requests(self.retry_after)
            case "400":
                return bad_request(self.description or "injected fault")
            case "403":
                return ApiError(403, f"Forbidden: {self.description or 'bot was blocked by the user'}")
            case "500":
                return ApiError(500, self.description or "Internal Server Error")
            case _:
                return None


@dataclass
class Chaos:
    """Random faults: each call of `method` has `probability` to meet one of `kinds`."""

    seed: int
    probability: float
    kinds: tuple[str, ...]
    method: str = "*"


class Faults:
    """The faults that wait for their calls."""

    def __init__(self) -> None:
        self._waiting: list[InjectedFault] = []
        self._chaos: Chaos | None = None
        self._random = random.Random(0)

    def add(self, fault: InjectedFault) -> None:
        """Queue a fault; an unknown kind is refused."""
        if fault.kind not in KINDS:
            raise ControlError(f"unknown fault kind {fault.kind!r}; known: {', '.join(KINDS)}")
        if fault.times < 1 or len(self._waiting) >= FAULTS_LIMIT:
            raise ControlError(f"times must be 1 or more, and at most {FAULTS_LIMIT} faults wait at once")
        if not 0 <= fault.delay_s <= 60 or fault.retry_after < 1:
            raise ControlError("delay_s must be 0 to 60, retry_after 1 or more")
        if fault.kind in OF_UPDATES:
            fault.method = "getUpdates"
        self._waiting.append(fault)

    def shake(self, chaos: Chaos | None) -> None:
        """Start random faults, or stop them with `None`."""
        if chaos is not None and not 0 < chaos.probability <= 1:
            raise ControlError("probability must be 0 to 1")
        if chaos is not None and not chaos.kinds:
            raise ControlError(f"kinds must name one kind at least; known: {', '.join(KINDS)}")
        if chaos is not None and (unknown := set(chaos.kinds) - set(KINDS)):
            raise ControlError(f"unknown fault kinds {sorted(unknown)}; known: {', '.join(KINDS)}")
        self._chaos = chaos
        self._random = random.Random(chaos.seed if chaos else 0)

    def clear(self) -> None:
        """Forget all faults."""
        self._waiting.clear()
        self._chaos = None

    def waiting(self) -> list[InjectedFault]:
        """The faults that have not met all their calls."""
        return list(self._waiting)

    def take(self, method: str, chat_id: int | None) -> InjectedFault | None:
        """The fault that this call meets, if any; one use of it is spent."""
        for fault in self._waiting:
            if fault.method.lower() in ("*", method.lower()) and fault.chat_id in (None, chat_id):
                fault.times -= 1
                if fault.times == 0:
                    self._waiting.remove(fault)
                return fault
        chaos = self._chaos
        if chaos and chaos.method.lower() in ("*", method.lower()) and self._random.random() < chaos.probability:
            kind = self._random.choice(chaos.kinds)
            return (
                InjectedFault(method, kind, delay_s=0.2) if kind not in OF_UPDATES or method == "getUpdates" else None
            )
        return None
