"""What every way of guessing shares: hand the code in, tell a refusal once, keep the board in sight."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from codemojex.bot.interaction.scene import Scene
from codemojex.play import guesses
from codemojex.play.games import GameSnapshot
from codemojex.play.guesses import Accepted, NotAccepted
from codemojex.play.outbound import orders

FAR = 20  # messages of a supergroup between its board and the talk's end
EVERY_PRIVATE = 5  # typed guesses in private until the board comes down to them
EVERY_GROUP = 12  # the same in ordinary groups, whose message ids tell nothing about distance


async def hand_in(scene: Scene, game: GameSnapshot, code: Sequence[str]) -> Accepted | None:
    """Submit a guess that was typed; None after a refusal, which is told in the chat."""
    verdict = await guesses.submit(scene.play, game, scene.player, code, scene.request)
    if isinstance(verdict, NotAccepted):
        await _tell(scene, game, verdict, code)
        return None
    return verdict


async def show_again_when_far(scene: Scene, game: GameSnapshot, accepted: Accepted) -> None:
    """Order a new board below the talk when the old one has scrolled away; refresh a private composer."""
    if accepted.again:
        return
    if scene.room.id != game.room:
        await refresh_composer(scene, game)
    elif await _far(scene, game, accepted):
        await orders.board(scene.play, game, fresh=True)


async def refresh_composer(scene: Scene, game: GameSnapshot, *, fresh: bool = False) -> None:
    """Order the player's composer for a game that is played elsewhere: edit it where it stands, or send one."""
    room = scene.room
    await orders.composer(scene.play, scene.player.id, game.id, room.chat_id, room.thread_id, fresh=fresh)


async def _far(scene: Scene, game: GameSnapshot, accepted: Accepted) -> bool:
    if scene.private:
        return accepted.try_no % EVERY_PRIVATE == 0
    if scene.room.kind != "supergroup":
        return accepted.seq % EVERY_GROUP == 0
    sent = await orders.sent_board(scene.play, game.id)
    return sent is not None and scene.message_id - sent.message_id >= FAR


async def _tell(scene: Scene, game: GameSnapshot, refused: NotAccepted, code: Sequence[str]) -> None:
    """Tell why the guess does not count; many in a row are told once, but each repeated code by its name."""
    if "tried" in refused.reason:
        await scene.whisper(scene.words(f"refused-{refused.reason}", code="".join(code)))
        return
    args = {"seconds": ceil(refused.wait_ms / 1000)} if refused.reason == "cooldown" else {}
    await scene.whisper(scene.words(f"refused-{refused.reason}", **args), kind=f"{game.id}-{refused.reason}")
