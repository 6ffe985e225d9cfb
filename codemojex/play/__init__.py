"""play coordinates: rooms, players, games and guesses over the bus, the pure game and the durable store.

What must hold together happens in one script in the slot of the game's queue: a try is taken and its job admitted,
a score is recorded and its job acknowledged, a game closes and its settlement is ordered. The package talks to
nobody: what people are to be told leaves as jobs on the outbound queue.
"""
