"""aiogram's dialogue state on the game's sessions: near-cached, shared by all processes, lost without harm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiogram.fsm.state import State
from aiogram.fsm.storage.base import BaseStorage, StateType, StorageKey

from codemojex.play.context import Play
from codemojex.play.people import sessions


class SessionStorage(BaseStorage):
    """State and data of one user in one conversation, in a session of their own."""

    def __init__(self, play: Play) -> None:
        self._play = play

    async def set_state(self, key: StorageKey, state: StateType = None) -> None:
        name = (state.state if isinstance(state, State) else state) or ""
        await sessions.update(self._play, _id(key), lambda session: session.__replace__(state=name))

    async def get_state(self, key: StorageKey) -> str | None:
        return (await sessions.get(self._play, _id(key))).state or None

    async def set_data(self, key: StorageKey, data: Mapping[str, Any]) -> None:
        await sessions.update(self._play, _id(key), lambda session: session.__replace__(data=dict(data)))

    async def get_data(self, key: StorageKey) -> dict[str, Any]:
        return dict((await sessions.get(self._play, _id(key))).data)

    async def close(self) -> None:
        """Nothing is held open."""


def _id(key: StorageKey) -> str:
    """Apart from the player's own session, whose draft and pins have nothing to do with dialogues."""
    return sessions.session_id(f"dialogue:{key.bot_id}:{key.user_id}:{key.destiny}", key.chat_id, key.thread_id)
