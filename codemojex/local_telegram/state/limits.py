"""Telegram's sending limits: one message a second to a person, twenty a minute to a group, thirty a second in all.

Edits count as messages. A refusal tells after how many seconds the same call fits, and costs nothing itself.
The figures are those that bots report; the real server publishes no exact ones.
"""

import math
from collections import deque
from dataclasses import dataclass

from codemojex.local_telegram.errors import too_many_requests


@dataclass(frozen=True)
class Limit:
    """At most `count` sends in any `window_s` seconds."""

    count: int
    window_s: float


# A person: a burst of three, then one a second.
PRIVATE = (Limit(3, 3.0),)
GROUP = (Limit(20, 60.0),)
OVERALL = (Limit(30, 1.0),)


class SendLimits:
    """Remembers recent sends per chat and over all chats."""

    def __init__(self) -> None:
        self._sends: dict[int, deque[float]] = {}

    def charge(self, chat_id: int, private: bool, now_s: float) -> None:
        """Count one send at `now_s`, or raise 429 and count nothing."""
        rules = ((chat_id, PRIVATE if private else GROUP), (0, OVERALL))
        wait_s = max(self._wait(key, limits, now_s) for key, limits in rules)
        if wait_s > 0:
            raise too_many_requests(max(1, math.ceil(wait_s)))
        for key, _ in rules:
            self._sends.setdefault(key, deque(maxlen=64)).append(now_s)
        if len(self._sends) > 10_000:
            self._sends = {key: sends for key, sends in self._sends.items() if now_s - sends[-1] < 60}

    def _wait(self, key: int, limits: tuple[Limit, ...], now_s: float) -> float:
        sends = self._sends.get(key, ())
        wait_s = 0.0
        for limit in limits:
            if len(sends) >= limit.count:
                wait_s = max(wait_s, sends[-limit.count] + limit.window_s - now_s)
        return wait_s
