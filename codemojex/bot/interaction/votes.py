"""A vote to end a game, by command or by button: counted, and told to the group once for each voter."""

from __future__ import annotations

from codemojex.bot.interaction.scene import Scene
from codemojex.play import closing, rooms
from codemojex.play.closing import NotEnded, Vote
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import orders


async def cast(scene: Scene, game: GameSnapshot) -> Vote | NotEnded:
    """Count the player's vote; the result tells when it was enough, else the game's group hears how many there are."""
    play = scene.play
    vote = await closing.vote_end(play, game, scene.player)
    room = await rooms.get(play, game.room)
    if isinstance(vote, Vote) and not vote.closed and room is not None:
        window_ms = play.options.vote_window_ms
        words = scene.desk.texts.of(room.lang)
        text = words("vote-count", count=vote.count, needed=vote.needed, minutes=window_ms // 60_000)
        once = f"{game.id}-{scene.player.id}-vote"
        await orders.say(play, room.chat_id, room.thread_id, str(text), key=once, window_ms=window_ms)
    return vote
