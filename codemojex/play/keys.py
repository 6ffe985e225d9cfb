"""Every key of the game is built here, and only here.

A game's keys carry the tag of its queue, so that one script may touch them together with the queue's own keys.
Rooms are placed on partitions by the placement hash of their id, and a game's id is minted to fall on its room's
partition: the id alone tells where everything of a game lies. Nothing here does I/O.
"""

from __future__ import annotations

from codemojex.engine import ids, keyspace
from codemojex.play.context import Options, Play

FEED = "feed"


def partition(options: Options, branded_id: str) -> int:
    """The number of the partition that a room or game lies on."""
    return ids.placement(branded_id) % options.partitions


def queue(options: Options, branded_id: str) -> str:
    """The queue of the guesses of a room or game."""
    return queue_name(options, partition(options, branded_id))


def queue_name(options: Options, number: int) -> str:
    """`cm` for partition 0, `cm.1`, `cm.2`, … for the others."""
    return f"{options.guesses}.{number}" if number else options.guesses


def queues(options: Options) -> list[str]:
    """The queues of all partitions."""
    return [queue_name(options, number) for number in range(options.partitions)]


def mint_game(play: Play, room_id: str) -> str:
    """A fresh game id that lies on the room's partition: one in `partitions` of the ids minted does."""
    home = partition(play.options, room_id)
    for _ in range(100 * play.options.partitions):
        game_id = play.mint.mint("GAM")
        if partition(play.options, game_id) == home:
            return game_id
    raise RuntimeError(
        f"no id of {100 * play.options.partitions} lies on partition {home}: the placement hash is broken"
    )


def script_node(options: Options, branded_id: str) -> int:
    """The node number that scripts mint event ids with: one per slot as far as the reserved range reaches."""
    return ids.SCRIPT_NODES.start + partition(options, branded_id) % len(ids.SCRIPT_NODES)


def game(queue: str, game_id: str) -> str:
    """The game's hash; see `lua/open.lua` for its fields. Never the secret."""
    return f"{_prefix(queue)}game:{ids.require(game_id, 'GAM')}"


def secret(queue: str, game_id: str) -> str:
    """The only key that holds the secret and the nonce, as `unlogged.hide` writes them; it goes with the archiving."""
    return f"{_prefix(queue)}secret:{ids.require(game_id, 'GAM')}"


def board(queue: str, game_id: str) -> str:
    """Sorted set of the game: party → best total · 10^9 − seq."""
    return f"{_prefix(queue)}board:{ids.require(game_id, 'GAM')}"


def room(queue: str, room_id: str) -> str:
    """The room's hash: where it is, its choices, its live and last game."""
    return f"{_prefix(queue)}room:{ids.require(room_id, 'ROM')}"


def complete(queue: str) -> str:
    """Sorted set of the settled games that are not archived yet, by the time of settlement."""
    return f"{_prefix(queue)}complete"


def unarchived(queue: str) -> str:
    """Sorted set of the finished games that the durable store does not hold yet, by the time of their close."""
    return f"{_prefix(queue)}unarchived"


def refused(queue: str) -> str:
    """Sorted set of the settled games that the durable store refuses, for an operator."""
    return f"{_prefix(queue)}refused"


def quarantine(queue: str) -> str:
    """Hash of the stream records that are no events: game and place → the record."""
    return f"{_prefix(queue)}quarantine"


def opened(queue: str, room_id: str, request: str) -> str:
    """Which game a request opened in a room."""
    return f"{_prefix(queue)}opened:{ids.require(room_id, 'ROM')}:{request}"


def chat(options: Options, chat_id: int, thread_id: int | None) -> str:
    """Which room a chat or topic is."""
    return f"{_prefix(options.guesses)}chat:{chat_id}:{thread_id or 0}"


def chat_rooms(options: Options, chat_id: int) -> str:
    """Set of the topics of a chat that are rooms, for its migration."""
    return f"{_prefix(options.guesses)}chat:{chat_id}:rooms"


def member(options: Options, chat_id: int, user_id: int) -> str:
    """That a Telegram user was in a chat a moment ago, or has just left it."""
    return f"{_prefix(options.guesses)}member:{chat_id}:{user_id}"


def user(options: Options, user_id: int) -> str:
    """Which player a Telegram user is."""
    return f"{_prefix(options.guesses)}user:{user_id}"


def player(options: Options, player_id: str) -> str:
    """The player's hash."""
    return f"{_prefix(options.guesses)}player:{ids.require(player_id, 'PLR')}"


def sent(options: Options, game_id: str) -> str:
    """Where the game's board message stands, in the slot of the outbound queue."""
    return f"{_prefix(options.outbound)}sent:{ids.require(game_id, 'GAM')}"


def requests(queue: str, game_id: str) -> str:
    """Hash of the requests that handed in a guess: request → what it was answered."""
    return f"{_prefix(queue)}requests:{ids.require(game_id, 'GAM')}"


def codes(queue: str, game_id: str) -> str:
    """Hash of the codes that were handed in: a digest of whose try it was and the code → player and guess."""
    return f"{_prefix(queue)}codes:{ids.require(game_id, 'GAM')}"


def composers(options: Options, game_id: str) -> str:
    """Hash of the game's private composers: player → where it stands, in the slot of the outbound queue."""
    return f"{_prefix(options.outbound)}composers:{ids.require(game_id, 'GAM')}"


def silent(options: Options, chat_id: int, thread_id: int | None) -> str:
    """That a chat or topic cannot be written to, in the slot of the outbound queue."""
    return f"{_prefix(options.outbound)}silent:{chat_id}:{thread_id or 0}"


def of_game(options: Options, game_id: str, room_id: str) -> list[str]:
    """All keys of a game in the order of the fragment `lua/include/game_keys.lua`."""
    home = queue(options, game_id)
    space = keyspace.of(home)
    tries, outstanding, votes = (f"{_prefix(home)}{family}:{game_id}" for family in ("tries", "outstanding", "votes"))
    return [
        space.prefix,
        space.stream(FEED),
        space.stream(game_id),
        game(home, game_id),
        secret(home, game_id),
        tries,
        requests(home, game_id),
        outstanding,
        votes,
        board(home, game_id),
        room(home, room_id),
        complete(home),
        codes(home, game_id),
        unarchived(home),
    ]


def expiring(options: Options, game_id: str, room_id: str) -> list[str]:
    """Those of a game's keys that go when it is archived."""
    watermark = keyspace.of(queue(options, game_id)).archived(game_id)
    every = of_game(options, game_id, room_id)
    return [*every[2:10], codes(queue(options, game_id), game_id), watermark]


def of_archive(queue: str) -> list[str]:
    """What `lua/keep_unarchived.lua` works on."""
    return [keyspace.of(queue).prefix, _prefix(queue), complete(queue), refused(queue), unarchived(queue)]


def owner(options: Options) -> str:
    """Hash that says whose the games of this server and namespace are; see `owner`. It never expires."""
    return f"{_prefix(options.guesses)}owner"


def poller(options: Options, bot_id: int) -> str:
    """The lease of a bot's poller."""
    return f"{_prefix(options.guesses)}poller:{bot_id}"


def _prefix(queue: str) -> str:
    return f"cmx:{{{keyspace.of(queue).queue}}}:"
