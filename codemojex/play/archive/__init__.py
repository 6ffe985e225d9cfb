"""Hands finished games to the durable store."""
