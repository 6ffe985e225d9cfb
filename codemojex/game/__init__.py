"""The rules of codemojex: emojis, settings, scoring, commitment, events and the fold that turns events into a board.

Everything here is a pure function of its arguments: no I/O, no clock, no randomness. The same events give the same
state on every machine, in any order of scoring. Drawing a secret, counting time and talking to players happen
elsewhere.
"""
