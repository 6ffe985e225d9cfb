"""What a handler of the bus receives and returns, for packages that do not know the engine: a job and its outcome."""

from __future__ import annotations

from codemojex.engine.jobs import Job
from codemojex.engine.outcome import Complete, Delay, Discard, Outcome, Park, Retry

__all__ = ["Complete", "Delay", "Discard", "Job", "Outcome", "Park", "Retry"]
