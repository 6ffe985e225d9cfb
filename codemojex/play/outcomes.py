"""What a handler of the bus receives and returns, for packages that do not know the engine: a job and its outcome.

`OUTAGES` are the faults that pass by themselves, and of which the job is not the cause: a server that is away or full.
"""

from __future__ import annotations

from codemojex.engine.errors import ConnectionFault, ServerFull
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, Outcome, Park, Retry
from codemojex.store.errors import StoreUnavailable

__all__ = ["OUTAGES", "VALKEY", "Complete", "Delay", "Discard", "Job", "Outcome", "Park", "Retry", "away"]

OUTAGES = (ConnectionFault, ServerFull, StoreUnavailable)
VALKEY, DATABASE = "Valkey", "the database"


def away(error: BaseException) -> str | None:
    """The name, in the log, of what is away by this error; None for an error of another kind."""
    if isinstance(error, StoreUnavailable):
        return DATABASE
    return VALKEY if isinstance(error, ConnectionFault | ServerFull) else None
