"""Payloads of the outbound queue: what to tell whom. JSON with `kind` and `v`; never a secret.

Texts are finished HTML. Boards, results and composers name what to show; the sender renders them when it sends, so
that the latest state wins.
"""

from __future__ import annotations

import msgspec

Markup = dict[str, object]  # Telegram's reply_markup, as the Bot API takes it


class _Payload(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True, omit_defaults=True):
    chat_id: int
    thread_id: int | None = None
    v: int = 1


class Say(_Payload, frozen=True, tag="say", kw_only=True):
    """Send `text` (HTML). `key` names the message: it is sent once.

    `receiver` is the member of a group who alone shall see it.
    """

    text: str
    key: str
    reply_to: int | None = None
    markup: Markup | None = None
    receiver: int | None = None


class Edit(_Payload, frozen=True, tag="edit", kw_only=True):
    """Replace the text of a message of the bot's own."""

    message_id: int
    text: str
    markup: Markup | None = None


class Board(_Payload, frozen=True, tag="board", kw_only=True):
    """Show the game's board as it is when this is sent: edit its message or send one."""

    game: str
    room: str
    fresh: bool = False


class ResultOrder(_Payload, frozen=True, tag="result", kw_only=True):
    """Tell how the game ended. `event` is the id of the event that says so.

    `late`: others have been played since, perhaps, so it says which game it was.
    """

    game: str
    room: str
    event: str
    late: bool = False


class Composer(_Payload, frozen=True, tag="composer", kw_only=True):
    """Show the player's guess builder for a game that is played elsewhere, as it is when this is sent.

    It is edited where it stands; `fresh` wants a new message. `pressed` is the message whose button asked for this: it
    takes the part of the composer when none is known, and gives way to the one that is.
    """

    player: str
    game: str
    fresh: bool = False
    pressed: int | None = None


Message = Say | Edit | Board | ResultOrder | Composer


def encode(message: Message) -> bytes:
    """The job's payload."""
    return msgspec.json.encode(message)


def decode(payload: bytes) -> Message:
    """The message of a payload. Raises ValueError for one of another kind or shape."""
    return msgspec.json.decode(payload, type=Message)
