"""Works the queue of guesses: scores, deadlines, settlements, each acknowledged together with what it changes.

The batch handler reads the secrets of a batch in one round trip and keeps none of them; the score is pure Python. A
redelivered job finds its guess recorded and changes nothing; a job of a game that has expired just ends.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from codemojex.engine.errors import ConnectionFault
from codemojex.engine.jobs.effects import Effect
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Retry
from codemojex.engine.scripts import EffectBody
from codemojex.game.events import GameCracked, GameSettled, GuessAccepted, GuessRefused, GuessScored
from codemojex.game.fold import GameState
from codemojex.game.scoring import score
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play
from codemojex.play.outcomes import away
from codemojex.play.views import views
from codemojex.store.errors import StoreUnavailable

BatchHandler = Callable[[list[Job]], Awaitable[Sequence[Outcome | None]]]
BOARD_LINES = 1_000  # lines of a final table that stay on the live board; the event has them all
_STEP = 1_000_000_000  # a board's score is total · step − seq: the better total first, then the earlier guess
_log = logging.getLogger(__name__)


class ScoreJob(msgspec.Struct, frozen=True, tag="score", tag_field="kind"):
    """Score one accepted guess. `party` is the player, or `team`."""

    game: str
    room: str
    guess: str
    player: str
    name: str
    party: str
    code: tuple[str, ...]
    seq: int
    try_no: int = msgspec.field(name="try")
    v: int = 1


class DeadlineJob(msgspec.Struct, frozen=True, tag="deadline", tag_field="kind"):
    """Close the game if its time is over; look whether a stopped game can close."""

    game: str
    room: str
    v: int = 1


class SettleJob(msgspec.Struct, frozen=True, tag="settle", tag_field="kind"):
    """Write the final table of a closed game."""

    game: str
    room: str
    v: int = 1


GameJob = ScoreJob | DeadlineJob | SettleJob
_decoder = msgspec.json.Decoder(GameJob)


def effects() -> tuple[EffectBody, ...]:
    """The bodies that a worker of these queues must know."""
    return tuple(LUA.body(name) for name in ("score_guess", "close_game", "settle_game"))


def handler(play: Play) -> BatchHandler:
    """The batch handler for the queues of `keys.queues`."""

    async def handle(jobs: list[Job]) -> Sequence[Outcome | None]:
        try:
            return await work(play, jobs)
        except ConnectionFault as error:  # not the jobs' fault: nobody is charged
            _log.warning("%d jobs are given back: %s", len(jobs), error, extra={"outage": away(error)})
            return [GiveBack()] * len(jobs)

    return handle


async def work(play: Play, jobs: Sequence[Job]) -> list[Outcome | None]:
    """One outcome per job, in order; a bad job spoils no other. Raises ConnectionFault when the server is lost."""
    read: list[GameJob | None] = [_decode(job) for job in jobs]
    secrets = await _secrets(play, [job for job in read if isinstance(job, ScoreJob)])
    outcomes: list[Outcome | None] = []
    for job, order in zip(jobs, read, strict=True):
        match order:
            case ScoreJob():
                outcomes.append(_score(play, order, secrets.get(order.game)))
            case DeadlineJob():
                outcomes.append(Complete(effect=_effect(play, "close_game", order, [job.id])))
            case SettleJob():
                outcomes.append(await _settle(play, order))
            case None:
                outcomes.append(Discard("the payload is not a job of this queue; a newer release may have sent it"))
    return outcomes


def _decode(job: Job) -> GameJob | None:
    try:
        return _decoder.decode(job.payload)
    except (msgspec.DecodeError, msgspec.ValidationError):
        _log.error("job %s has a payload that is not a job of this queue", job.id)
        return None


async def _secrets(play: Play, orders: Sequence[ScoreJob]) -> dict[str, tuple[str, ...]]:
    """The secrets of the games in the batch, in one round trip; a game without one is left out."""
    games = list(dict.fromkeys(order.game for order in orders))
    home = {game: keys.queue(play.options, game) for game in games}
    found = await play.bus.all([("HGET", keys.secret(home[game], game), "tokens") for game in games])
    secrets: dict[str, tuple[str, ...]] = {}
    for game, tokens in zip(games, found, strict=True):
        if tokens is not None:
            secrets[game] = msgspec.json.decode(tokens, type=tuple[str, ...])
    return secrets


def _score(play: Play, order: ScoreJob, secret: tuple[str, ...] | None) -> Outcome:
    accepted = GuessAccepted(order.guess, order.player, order.name, order.seq, order.try_no)
    reason = "late" if secret else "gone"
    refused = _json(GuessRefused(order.guess, order.player, order.name, order.seq, reason))
    common = [order.guess, order.party, order.player, order.seq]
    if secret is None or len(secret) != len(order.code):
        _log.warning("guess %s of game %s cannot be scored: its game has expired", order.guess, order.game)
        return Complete(effect=_effect(play, "score_guess", order, [*common, "", "0", "", refused, ""]))
    result = score(secret, order.code)
    scored = _json(GuessScored.of(accepted, order.code, result))
    cracked = _json(GameCracked(order.player, order.seq, order.guess)) if result.perfect else b""
    args = [*common, result.total, "1" if result.perfect else "0", scored, refused, cracked]
    return Complete(effect=_effect(play, "score_guess", order, args))


async def _settle(play: Play, order: SettleJob) -> Outcome:
    try:
        state = await views.view(play, order.game)
    except StoreUnavailable as error:
        _log.warning("game %s is settled later: %s", order.game, error)
        return Delay(5_000)
    except ValueError as error:  # a stream that cannot be folded: one game's trouble, not the batch's
        return Retry(f"game {order.game} cannot be settled: {error}")
    if state is None:
        _log.warning("game %s cannot be settled: it has expired", order.game)
        return Complete()
    if not state.over:
        return Delay(1_000)
    return Complete(effect=_effect(play, "settle_game", order, [_settled(state), *_board(state)]))


def _settled(state: GameState) -> bytes:
    return _json(GameSettled(state.final_standings()))


def _board(state: GameState) -> list[str | int]:
    lines: list[str | int] = []
    for line in state.final_standings()[:BOARD_LINES]:
        lines += [(line.best or 0) * _STEP - line.best_seq, line.player or "team"]
    return lines


def _effect(play: Play, body: str, order: GameJob, args: Sequence[str | bytes | int]) -> Effect:
    return Effect(body, keys.of_game(play.options, order.game, order.room), args)


def _json(event: GuessScored | GuessRefused | GameCracked | GameSettled) -> bytes:
    return msgspec.json.encode(event.to_data())
