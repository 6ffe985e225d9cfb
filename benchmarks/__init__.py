"""Measures the engine on this machine, over the embedded server with its append-only file on."""
