"""What every way of guessing shares: hand the code in, tell a refusal once, keep the board in sight."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from codemojex.play import guesses, outbound, sessions
from codemojex.play.games import Snapshot
from codemojex.play.guesses import Accepted, Refused
from codemojex.play.sessions import Session

from .scene import Scene

FAR = 20  # messages of a supergroup between its board and the talk's end
EVERY_PRIVATE = 5  # typed guesses in private until the board comes down to them
EVERY_GROUP = 12  # the same in ordinary groups, whose message ids tell nothing about distance


async def hand_in(scene: Scene, game: Snapshot, code: Sequence[str]) -> Accepted | None:
    """Submit a guess that was typed; None after a refusal, which is told in the chat."""
    verdict = await guesses.submit(scene.play, game, scene.player, code, scene.request)
    if isinstance(verdict, Refused):
        await _tell(scene, game, verdict)
        return None
    await forget_draft(scene, game)
    return verdict


async def forget_draft(scene: Scene, game: Snapshot) -> Session:
    """Begin the next guess with an empty draft; pins of this game stay."""

    def emptied(session: Session) -> Session:
        return for_game(session, game.id).__replace__(draft=())

    return await sessions.update(scene.play, scene.session_id, emptied)


def for_game(session: Session, game_id: str) -> Session:
    """The session as it begins for a game: draft and pins of another game are dropped."""
    return session if session.game == game_id else session.__replace__(game=game_id, draft=(), locks={})


async def show_again_when_far(scene: Scene, game: Snapshot, accepted: Accepted) -> None:
    """Order a new board below the talk when the old one has scrolled away; refresh a private composer."""
    if accepted.again:
        return
    if scene.room.id != game.room:
        await refresh_composer(scene, game)
    elif await _far(scene, game, accepted):
        await outbound.board(scene.play, game, fresh=True)


async def refresh_composer(scene: Scene, game: Snapshot, *, fresh: bool = False) -> None:
    """Order the player's composer for a game that is played elsewhere: edit it where it stands, or send one."""
    session = await scene.session()
    known = session.composer_chat_id == scene.room.chat_id and not fresh
    here = session.composer_message_id if known else 0
    await outbound.composer(
        scene.play, scene.player.id, game.id, scene.room.chat_id, scene.room.thread_id, message_id=here or None
    )


async def _far(scene: Scene, game: Snapshot, accepted: Accepted) -> bool:
    if scene.private:
        return accepted.try_no % EVERY_PRIVATE == 0
    if scene.room.kind != "supergroup":
        return accepted.seq % EVERY_GROUP == 0
    sent = await outbound.sent_board(scene.play, game.id)
    return sent is not None and scene.message_id - sent.message_id >= FAR


async def _tell(scene: Scene, game: Snapshot, refused: Refused) -> None:
    """A cool-down and a busy moment pass and are told each time, the rest once per player and game."""
    passing = refused.reason in ("cooldown", "busy")
    once = None if passing else f"{game.id}-{scene.player.id}-{refused.reason}"
    args = {"seconds": ceil(refused.wait_ms / 1000)} if refused.reason == "cooldown" else {}
    await scene.say(scene.words(f"refused-{refused.reason}", **args), once=once)
