"""Talks: takes updates from Telegram into the bus, lets handlers act on them, and sends what the game has to say.

Three independent roles: intake (poll, admit, confirm), updates (one conversation, one lane, aiogram's dispatcher) and
send (texts, boards and results under Telegram's limits). Game rules and state live elsewhere; nothing happens at
import.
"""
