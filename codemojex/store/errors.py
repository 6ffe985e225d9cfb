"""The faults of the durable store; everything that can go normally wrong is a value instead (see `archive`).

    StoreFault
    ├── StoreUnavailable   the database cannot be used now: unreachable, wrong address, wrong schema
    ├── NotOurs            the database, or the server that is used with it, belongs to somebody else
    └── SegmentDamaged     sealed bytes are not what was sealed

No message holds a password, a secret code or the parameters of a statement.
"""


class StoreFault(Exception):
    """Something is wrong with the durable store; the message says what, where, and what to do."""


class StoreUnavailable(StoreFault):
    """The database cannot be used now; nothing of the attempted transaction is known to be written."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(f"durable store {where}: {problem}; {remedy}")
        self.where = where
        self.problem = problem
        self.remedy = remedy


class NotOurs(StoreFault):
    """The database or the server belongs to another bot, namespace or pair of both; one line with the remedy."""


class SegmentDamaged(StoreFault):
    """The bytes of a segment fail a check; no record of it is handed out."""

    def __init__(self, segment: str, problem: str) -> None:
        super().__init__(f"segment {segment} is damaged: {problem}; restore it from a copy")
        self.segment = segment
        self.problem = problem
