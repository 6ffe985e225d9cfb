"""Everything that one running server shares: the state and the machines around it.

Passed first to every function that reads or changes the world. Changes go through `changed` and `publish` so that
the file is saved and the watchers hear of it.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from codemojex.local_telegram.errors import Json
from codemojex.local_telegram.state.clock import TelegramClock
from codemojex.local_telegram.state.events import Events
from codemojex.local_telegram.state.faults import Faults
from codemojex.local_telegram.state.limits import SendLimits
from codemojex.local_telegram.state.model import Chat, State
from codemojex.local_telegram.state.storage import Storage
from codemojex.local_telegram.state.updates import UpdateQueue

LOG_LIMIT = 5000


@dataclass
class World:
    """One Telegram."""

    state: State
    clock: TelegramClock
    updates: UpdateQueue
    events: Events
    faults: Faults
    storage: Storage
    limits: SendLimits | None
    answers: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, asyncio.Future[Json]])
    log: deque[Json] = field(default_factory=lambda: deque[Json](maxlen=LOG_LIMIT))
    logged: int = 0

    @property
    def bot_id(self) -> int:
        """The bot's user id."""
        return self.state.bot.user_id

    def publish(self, kind: str, chat: Chat, body: Json) -> None:
        """Something changed in a chat: save it and tell those who see the chat."""
        self.storage.touch()
        self.events.publish(kind, {"chat_id": chat.chat_id, **body}, set(chat.members))

    def changed(self, kind: str, body: Json | None = None) -> None:
        """Something changed for everybody."""
        self.storage.touch()
        self.events.publish(kind, body or {})

    def note(self, method: str, fields: Json, outcome: Json) -> None:
        """Write a bot call to the log; the token is in no field."""
        self.logged += 1
        entry: Json = {"n": self.logged, "date": self.clock.date(), "method": method, "fields": fields, **outcome}
        self.log.append(entry)
        self.events.tick()
