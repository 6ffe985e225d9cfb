"""store remembers: finished games in SQL, as rows to query and as sealed segments to replay.

It promises that a game is folded once, wholly or not at all, on SQLite and on PostgreSQL alike.
It takes no part in a live game: nothing between a guess and its answer waits for this package.
"""
