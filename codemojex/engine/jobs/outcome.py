"""What a handler says about its job; `None` means `Complete()`.

Only `Retry` counts as a failure. `Delay`, `Park` and `GiveBack` put the job back without charging anybody.
"""

from __future__ import annotations

from dataclasses import dataclass

from codemojex.engine.jobs.effects import Effect


@dataclass(frozen=True, slots=True)
class Complete:
    """The job is done; `effect` commits together with the acknowledgement.

    `result`: bytes go to the job's parent in a flow (the job's id stands for None); anything else stays here.
    """

    result: object = None
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed: try again after `delay_ms` (None: by the job's backoff), or die at the cap of failures."""

    error: str
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Not now: the job becomes due again in `ms`."""

    ms: int


@dataclass(frozen=True, slots=True)
class Park:
    """The job's whole lane rests `for_ms`; the job waits at its place in it. Without a lane this is a `Delay`."""

    for_ms: int


@dataclass(frozen=True, slots=True)
class Discard:
    """The job can never succeed: it becomes a dead letter at once."""

    error: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The worker could not do it (it shuts down, say): the job waits again as if never claimed, under a new token."""


Outcome = Complete | Retry | Delay | Park | Discard | GiveBack
