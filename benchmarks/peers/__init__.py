"""One module per system that is measured; each runs in a process of its own, in an environment with its own pins.

A module has `SETTINGS`, one line that says how the system is set up, and `System`, whose methods enqueue and work. A
handler does nothing but what the probe asks for. Only the standard library and the system itself are imported here,
because nothing else is installed beside it.
"""
