"""Named scenarios that prove a server and this engine keep the protocol.

Each scenario works a throw-away queue, looks at the stored bytes as a peer in another language would, and removes its
keys. `table` lists them in the protocol's order, `runner` runs them. Scenarios use the engine's public verbs only.
"""
