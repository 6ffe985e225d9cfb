"""Scenarios of what is told while jobs run: events, hooks, cancellation."""
