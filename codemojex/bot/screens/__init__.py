"""One router per screen, built anew for each dispatcher; the order here is the order in which they are asked."""

from __future__ import annotations

from aiogram import Router

from codemojex.bot.screens import board, composer, end, fallback, guess, history, locks, membership, play, start, verify

_SCREENS = (guess, composer, board, history, play, end, locks, verify, start, membership, fallback)


def all_routers() -> list[Router]:
    """Every screen; the fallback is the last."""
    return [screen.build() for screen in _SCREENS]
