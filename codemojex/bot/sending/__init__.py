"""Draws and sends what the outbound queue names."""
