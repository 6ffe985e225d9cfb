"""Node numbers on lease: a number that was given back or lapsed rests a while before somebody else gets it."""

from __future__ import annotations

from dataclasses import dataclass, field

Lease = tuple[float, str]  # its end, whose it is ('' when it was given back)


@dataclass
class Numbers:
    leases: dict[int, Lease] = field(default_factory=dict)

    def lease(  # noqa: PLR0917
        self, now: float, end: float, token: str, rest_ms: int, first: int, count: int
    ) -> int:
        """The first free number, counted from `first` on; -1 when there is none."""
        for offset in range(count):
            number = (first + offset) % count
            if number not in self.leases or self.leases[number][0] + rest_ms <= now:
                self.leases[number] = (end, token)
                return number
        return -1

    def renew(self, number: int, token: str, end: float, *, over: bool) -> bool:
        """Prolong a lease, or end it at once; False when it is not this one's."""
        if number not in self.leases or self.leases[number][1] != token:
            return False
        self.leases[number] = (end, "" if over else token)
        return True
