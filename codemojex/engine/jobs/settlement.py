"""Attempts end here, each under its token.

One script settles many jobs, each fenced by itself, with one verdict each, and can claim for the free places in the
same step: the steady state of a worker is one such call. An effect runs after the fence and before the row goes;
when it fails, its job is not settled. A verdict is a value; the verbs for a single job raise for a lost lease.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.backoff import DEFAULT, LONGEST_MS, Backoff, Exponential, Fixed
from codemojex.engine.errors import EffectFailed, InvalidValue, StaleToken
from codemojex.engine.jobs import claims
from codemojex.engine.jobs.claims import Claimed
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import MAX_PAYLOAD
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

CHUNK = 200
MAX_ATTEMPTS = 3
MAX_ERROR = 2000
_HEAD = 7  # arguments of the settle script before those of effects and results
State = Literal["completed", "scheduled", "dead", "pending"]


class Settlement(NamedTuple):
    """One attempt to end: the job, the token it was claimed under, and what its handler said."""

    job_id: str
    token: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Settled:
    """The attempt is over; `state` is where the job is now, `reply` what its effect returned (None without one)."""

    state: State
    reply: Any = None  # an effect may return whatever a script can


@dataclass(frozen=True, slots=True)
class Stale:
    """Nothing changed: the token is not the job's current one, or the attempt was settled before."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing changed: the job does not exist (any more)."""


@dataclass(frozen=True, slots=True)
class EffectFailure:
    """The effect raised or refused, or the server has no memory: the job is not settled and still in flight."""

    reason: str


SettleVerdict = Settled | Stale | Gone | EffectFailure


@dataclass(frozen=True, slots=True)
class Renewed:
    """Which leases could not be renewed, and which jobs somebody asked to cancel: id to reason."""

    lost: Sequence[str]
    cancelled: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts for a retried job whose row says nothing of its own."""

    max_attempts: int = MAX_ATTEMPTS
    backoff: Backoff = DEFAULT

    def __post_init__(self) -> None:
        validation.integer("max_attempts", self.max_attempts, 1, validation.MAX_ATTEMPTS)
        validation.one_of("backoff", self.backoff, Fixed, Exponential)


_POLICY = Policy()


async def settle_many(
    bus: Connector,
    queue: str,
    items: Sequence[Settlement],
    *,
    effects: Sequence[EffectBody] = (),
    policy: Policy = _POLICY,
) -> list[SettleVerdict]:
    """End many attempts; verdicts in input order. `effects`: the bodies that the outcomes' effects name.

    Raises CrossSlot or InvalidValue before anything is sent.
    """
    keyspace.of(queue)
    script = ENGINE.script("settle", effects)
    items = validation.many("items", items, Settlement)
    validation.one_of("policy", policy, Policy)
    calls = [_call(queue, items[i : i + CHUNK], effects, policy) for i in range(0, len(items), CHUNK)]
    verdicts: list[SettleVerdict] = []
    for keys, args in calls:
        _, settled, _ = await bus.run(script, keys, args)
        verdicts += _verdicts(settled)
    return verdicts


async def settle_and_claim(
    bus: Connector,
    queue: str,
    items: Sequence[Settlement],
    n: int,
    lease_ms: int,
    *,
    effects: Sequence[EffectBody] = (),
    policy: Policy = _POLICY,
    max_bytes: int = claims.DEFAULT_BYTES,
    lane_limit: int | None = None,
) -> tuple[list[SettleVerdict], Claimed]:
    """`settle_many`, then `claim_many` for `n` jobs, in one script (`n` of 0 claims nothing)."""
    claims.check_claim(max(1, validation.integer("n", n, 0, claims.MAX_CLAIM)), lease_ms, max_bytes, lane_limit)
    script = ENGINE.script("settle", effects)
    items = validation.many("items", items, Settlement)
    validation.one_of("policy", policy, Policy)
    cut = max(0, len(items) - CHUNK)
    keys, args = _call(queue, items[cut:], effects, policy, (n, lease_ms, max_bytes, lane_limit or 0))
    verdicts = await settle_many(bus, queue, items[:cut], effects=effects, policy=policy)
    now, settled, reply = await bus.run(script, keys, args)
    return [*verdicts, *_verdicts(settled)], claims.claimed(queue, now, lease_ms, reply)


async def complete(
    bus: Connector,
    queue: str,
    job_id: str,
    token: str,
    effect: Effect | None = None,
    *,
    effects: Sequence[EffectBody] = (),
    result: bytes | None = None,
) -> Settled | Gone:
    """End the job for good; its parent in a flow is given `result`. Raises StaleToken, EffectFailed."""
    if result is not None:
        validation.data("a result", result, MAX_PAYLOAD)
    return await _one(bus, queue, Settlement(job_id, token, Complete(result, effect)), effects)


async def retry(
    bus: Connector,
    queue: str,
    job_id: str,
    token: str,
    error: str,
    *,
    delay_ms: int | None = None,
    max_attempts: int = MAX_ATTEMPTS,
) -> Settled | Gone:
    """Charge a failure: the job is scheduled again, or dead at its cap. Raises StaleToken."""
    item = Settlement(job_id, token, Retry(error, delay_ms))
    return await _one(bus, queue, item, policy=Policy(max_attempts))


async def delay(bus: Connector, queue: str, job_id: str, token: str, ms: int) -> Settled | Gone:
    """Put the job off without charging a failure. Raises StaleToken."""
    return await _one(bus, queue, Settlement(job_id, token, Delay(ms)))


async def extend(bus: Connector, queue: str, job_id: str, token: str, lease_ms: int) -> bool:
    """Renew a lease from now on; False when the job is gone. Raises StaleToken when it is not held under `token`."""
    verdict = (await _extend(bus, queue, [(ids.require(job_id), token)], lease_ms))[0]
    if verdict == b"stale":
        raise StaleToken(f"EMQSTALE {job_id} is not active under token {token}")
    return verdict != b"gone"


async def extend_many(bus: Connector, queue: str, leases: Sequence[tuple[str, str]], lease_ms: int) -> list[str]:
    """Renew many leases, pairs of job id and token; the ids that are not held any more."""
    return [*(await renew_many(bus, queue, leases, lease_ms)).lost]


async def renew_many(bus: Connector, queue: str, leases: Sequence[tuple[str, str]], lease_ms: int) -> Renewed:
    """`extend_many` that also says which of the renewed jobs somebody asked to cancel."""
    leases = validation.pairs("leases", leases)
    lost: list[str] = []
    cancelled: dict[str, str] = {}
    for i in range(0, len(leases), claims.MAX_CLAIM):
        part = leases[i : i + claims.MAX_CLAIM]
        verdicts = await _extend(bus, queue, part, lease_ms)
        for (job_id, _), verdict in zip(part, verdicts, strict=True):
            if verdict.startswith(b"cancel:"):
                cancelled[job_id] = verdict[len(b"cancel:") :].decode(errors="replace")
            elif verdict != b"ok":
                lost.append(job_id)
    return Renewed(lost, cancelled)


async def _extend(bus: Connector, queue: str, leases: Sequence[tuple[str, str]], lease_ms: int) -> list[bytes]:
    claims.check_lease(lease_ms)
    args = [lease_ms, *(validation.text("a job id or token", part) for lease in leases for part in lease)]
    return await bus.run(ENGINE.script("extend"), (keyspace.of(queue).prefix,), args)


async def _one(
    bus: Connector, queue: str, item: Settlement, effects: Sequence[EffectBody] = (), policy: Policy = _POLICY
) -> Settled | Gone:
    keyspace.of(queue).row(item.job_id)
    verdict = (await settle_many(bus, queue, [item], effects=effects, policy=policy))[0]
    if isinstance(verdict, Stale):
        raise StaleToken(f"EMQSTALE token {item.token} is not the current one of {item.job_id}")
    if isinstance(verdict, EffectFailure):
        raise EffectFailed(f"the effect of {item.job_id} failed: {verdict.reason}")
    return verdict


def check(queue: str, outcome: Outcome, effects: Sequence[EffectBody]) -> None:
    """Raise what would refuse this outcome before it is sent: CrossSlot, or InvalidValue.

    A batch is refused whole for one such outcome, so who settles for others checks each of them first.
    """
    match outcome:
        case Complete(result, effect):
            if isinstance(result, bytes):
                validation.data("a result", result, MAX_PAYLOAD)
            if effect is not None:
                _check_effect(queue, effect, effects)
        case Retry(error, delay_ms):
            _text(error)
            if delay_ms is not None:
                validation.integer("delay_ms", delay_ms, 0, LONGEST_MS, " ms (30 days)")
        case Delay(ms):
            validation.integer("ms", ms, 0, LONGEST_MS, " ms (30 days)")
        case Park(for_ms):
            validation.integer("for_ms", for_ms, 0, LONGEST_MS, " ms (30 days)")
        case Discard(error):
            _text(error)
        case GiveBack():
            pass
        case _:  # a handler may return anything
            what = validation.shown(outcome)
            raise InvalidValue(f"{what} is not an outcome: return Complete, Retry, Delay, Park, Discard or None")


def _check_effect(queue: str, effect: object, effects: Sequence[EffectBody]) -> None:
    if not isinstance(effect, Effect):
        raise InvalidValue(f"effect={validation.shown(effect)} is a {type(effect).__name__}: use an Effect")
    if all(body.name != effect.name for body in effects):
        raise InvalidValue(f"effect {effect.name!r} is not among the bodies of this call")
    keyspace.of(queue).require_same_slot(effect.keys)


def _call(
    queue: str,
    items: Sequence[Settlement],
    effects: Sequence[EffectBody],
    policy: Policy,
    claim: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> tuple[list[str], list[Arg]]:
    """KEYS and ARGV of the settle script: one message of items; results, and effects' keys and arguments, behind."""
    keys: list[str] = [keyspace.of(queue).prefix]
    tail: list[Arg] = []
    message: list[list[Any]] = []
    for item in items:
        validation.text("job_id", item.job_id)
        validation.text("token", item.token)
        check(queue, item.outcome, effects)
        message.append(_item(item, keys, tail))
    head: list[Arg] = [msgspec.msgpack.encode(message), policy.max_attempts, policy.backoff.wire, *claim]
    return keys, head + tail


def _item(item: Settlement, keys: list[str], tail: list[Arg]) -> list[Any]:  # a message of mixed parts
    job_id, token, outcome = item
    match outcome:
        case Complete():
            effect, result = outcome.effect, None
            if isinstance(outcome.result, bytes):
                result = len(tail) + _HEAD + 1
                tail.append(outcome.result)
            if effect is None:
                return [job_id, token, "complete"] if result is None else [job_id, token, "complete", result]
            place = [effect.name, len(keys) + 1, len(effect.keys), len(tail) + _HEAD + 1, len(effect.args)]
            keys += effect.keys
            tail += effect.args
            return [job_id, token, "complete", result, None, None, *place]
        case Retry(error, delay_ms):
            return [job_id, token, "retry", _text(error), delay_ms, random.random()]
        case Delay(ms):
            return [job_id, token, "delay", ms]
        case Park(for_ms):
            return [job_id, token, "park", for_ms]
        case Discard(error):
            return [job_id, token, "discard", _text(error)]
        case GiveBack():
            return [job_id, token, "give_back"]


def _text(error: object) -> str:
    """An error as it is kept: bounded, and free of what cannot be encoded."""
    try:
        return str(error)[:MAX_ERROR].encode("utf-8", "replace").decode()
    except Exception as fault:  # of the object's own __str__, whatever a handler gave
        raise InvalidValue(f"error is a {type(error).__name__} without a text: use a str") from fault


def _verdicts(reply: list[Any]) -> list[SettleVerdict]:
    verdicts: list[SettleVerdict] = []
    for i in range(0, len(reply), 3):
        match reply[i]:
            case b"settled":
                verdicts.append(Settled(reply[i + 1].decode(), reply[i + 2]))
            case b"stale":
                verdicts.append(Stale())
            case b"gone":
                verdicts.append(Gone())
            case _:
                verdicts.append(EffectFailure(reply[i + 1].decode(errors="replace")))
    return verdicts
