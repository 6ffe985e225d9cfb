"""`python -m tests.mutants`: makes mutants of the engine's Lua, tries them, names those that nobody noticed.

What was tried is kept in `.mutants/`, so that a run which was stopped goes on where it was; `--again` tries the
survivors again, as after a new test. Exit code 1 when a survivor is not explained in accepted.toml, 2 when there is
none and some mutants are not decided.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.hunt import PATIENCE_S, Fate, Hunter
from tests.mutants.mutations import DROPPED, FLIPPED, LITERAL, SWAPPED, Mutant, mutants
from tests.mutants.override import original, paths
from tests.mutants.suite import ROOT, STORIES

KEPT = ROOT / ".mutants"
KINDS = (DROPPED, FLIPPED, SWAPPED, LITERAL)
ACCEPTED = Path(__file__).with_name("accepted.toml")


def accepted() -> dict[tuple[str, str, str | None], str]:
    """The reasons of survivors: by path and the line before and after, None for whatever it reads after."""
    entries = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("survivor", [])
    return {(e["path"], e["before"], e.get("after")): e["reason"] for e in entries}


def every() -> list[Mutant]:
    """Every mutant of every Lua file of the engine."""
    return [mutant for path in paths() for mutant in mutants(path, original(path))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Mutants of the engine's Lua")
    parser.add_argument("--only", metavar="FILE", help="mutants of this file, as in claim_many.lua or include/ring.lua")
    parser.add_argument("--kind", choices=KINDS, help="mutants of this kind")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants, drawn by chance")
    parser.add_argument("--seed", type=int, default=1, help="what the sample is drawn with (1)")
    parser.add_argument("--again", action="store_true", help="try the survivors of earlier runs again")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, metavar="S", help="time for the tests of a mutant"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no further mutant after this time")
    chosen = parser.parse_args(arguments)
    if chosen.only and chosen.only not in paths():
        parser.error(f"engine/lua has no file {chosen.only!r}")
    found = [m for m in every() if chosen.only in (None, m.path) and chosen.kind in (None, m.kind)]
    if chosen.sample is not None and chosen.sample < len(found):
        found = random.Random(chosen.seed).sample(found, chosen.sample)
    return asyncio.run(_hunt(found, again=chosen.again, seconds=chosen.seconds, patience=chosen.patience))


async def _hunt(found: Sequence[Mutant], *, again: bool, seconds: float | None, patience: float) -> int:
    book = Book(KEPT)
    end = math.inf if seconds is None else time.monotonic() + seconds
    found = sorted(found, key=lambda mutant: KINDS.index(mutant.kind) > 1)  # dropped and flipped ones first
    retried = ("waits", "undecided", *(("survived",) if again else ()))
    left = [m for m in found if (fate := book.fate(m)) is None or fate.end in retried]
    left.sort(key=lambda mutant: book.fate(mutant) is not None)  # what was tried before comes last
    hunter = Hunter(kills=book.kills(), patience_s=patience)
    try:
        if left:
            await hunter.learn()
            hunter.learn_tests(KEPT)
        for mutant in left:
            if time.monotonic() >= end:
                break
            fate = Fate("waits") if book.fate(mutant) == Fate("waits") else await hunter.scenarios_against(mutant)
            book.keep(mutant, hunter.tests_against(mutant) if fate == Fate("waits") else fate)
    finally:
        hunter.close()
    return report(found, {m: fate for m in found if (fate := book.fate(m)) is not None})


class Book:
    """The fates that are known, in a file; a text that was changed since is another mutant."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self._file = place / "fates.json"
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else "{}"
        self._fates: dict[str, list[str]] = json.loads(text)

    def fate(self, mutant: Mutant) -> Fate | None:
        """What became of a mutant, None when it was not tried."""
        kept = self._fates.get(_name(mutant))
        return Fate(*kept) if kept else None

    def kills(self) -> dict[str, Counter[str]]:
        """Who has killed how many mutants of each file: path -> name -> number."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, (end, by) in self._fates.items():
            if end == "killed":
                found[name.partition(":")[0]][by] += 1
        return found

    def keep(self, mutant: Mutant, fate: Fate) -> None:
        """Write it down and say it."""
        self._fates[_name(mutant)] = [fate.end, fate.by]
        self._file.write_text(json.dumps(self._fates, indent=0), encoding="utf-8")
        print(f"{fate.end:9} {mutant}{f'  ({fate.by})' if fate.by else ''}", flush=True)


def report(found: Sequence[Mutant], fates: Mapping[Mutant, Fate]) -> int:
    """Print the survivors and the sums; the exit code: 1 when one of them is not explained, 2 when some are open."""
    reasons = accepted()
    sums = {kind: Counter[str]() for kind in KINDS}
    for mutant in found:
        fate = fates.get(mutant, Fate("open"))
        end = fate.end if fate.end in ("killed", "survived", "invalid") else "open"
        place = mutant.path, mutant.before
        reason = reasons.get((*place, mutant.after)) or reasons.get((*place, None))
        if end in ("survived", "open"):
            print(f"{fate.end:9} {mutant}\n          {reason or fate.by or 'NOT EXPLAINED'}")
            end = "explained" if reason else end
        elif end == "killed":
            end = "by stories" if STORIES in fate.by else "by tests" if "::" in fate.by else "by scenarios"
        sums[mutant.kind][end] += 1
    columns = ("by scenarios", "by stories", "by tests", "explained", "survived", "open", "invalid")
    for kind, sum_ in [*sums.items(), ("all", sum(sums.values(), Counter[str]()))]:
        print(f"{kind:20}" + "".join(f"{sum_[column]:6} {column}" for column in columns))
    unexplained, open_ = (sum(s[end] for s in sums.values()) for end in ("survived", "open"))
    if unexplained:
        print(f"{unexplained} survivors are not explained: add a test, or say why they may live in accepted.toml")
    if open_:
        print(f"{open_} mutants are not decided: run it again, it goes on with them")
    return 1 if unexplained else 2 if open_ else 0


def _name(mutant: Mutant) -> str:
    text = mutant.text(original(mutant.path))
    return f"{mutant.path}:{mutant.line}:{hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]}"


if __name__ == "__main__":
    sys.exit(main())
