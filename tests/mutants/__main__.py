"""`python -m tests.mutants`: makes mutants of the engine's Lua, tries them, names those that nobody noticed.

What was tried is kept in `.mutants/`, so that a run which was stopped goes on where it was; `--again` tries the
survivors again, as after a new test. Exit code 1 when a survivor is not explained in accepted.toml.
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
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.hunt import ROOT, Fate, Hunter
from tests.mutants.mutations import Mutant, mutants
from tests.mutants.override import original, paths

KEPT = ROOT / ".mutants"
ACCEPTED = Path(__file__).with_name("accepted.toml")


def accepted() -> dict[tuple[str, str, str], str]:
    """The reason of every survivor that is explained, by path and the line before and after."""
    entries = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("survivor", [])
    return {(e["path"], e["before"], e["after"]): e["reason"] for e in entries}


def every() -> list[Mutant]:
    """Every mutant of every Lua file of the engine."""
    return [mutant for path in paths() for mutant in mutants(path, original(path))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Mutants of the engine's Lua")
    parser.add_argument("--only", metavar="FILE", help="mutants of this file, as in claim_many.lua or include/ring.lua")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants, drawn by chance")
    parser.add_argument("--seed", type=int, default=1, help="what the sample is drawn with (1)")
    parser.add_argument("--again", action="store_true", help="try the survivors of earlier runs again")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no further mutant after this time")
    chosen = parser.parse_args(arguments)
    if chosen.only and chosen.only not in paths():
        parser.error(f"engine/lua has no file {chosen.only!r}")
    found = [m for m in every() if not chosen.only or m.path == chosen.only]
    if chosen.sample is not None and chosen.sample < len(found):
        found = random.Random(chosen.seed).sample(found, chosen.sample)
    return asyncio.run(_hunt(found, again=chosen.again, seconds=chosen.seconds))


async def _hunt(found: Sequence[Mutant], *, again: bool, seconds: float | None) -> int:
    book = Book(KEPT)
    end = math.inf if seconds is None else time.monotonic() + seconds
    new = [m for m in found if (fate := book.fate(m)) is None or (again and fate.end == "survived")]
    hunter = Hunter()
    try:
        if new:
            await hunter.learn()
        for mutant in new:
            if time.monotonic() < end:
                book.keep(mutant, await hunter.scenarios_against(mutant))
        waiting = [m for m in found if (fate := book.fate(m)) is not None and fate.end == "waits"]
        if waiting and time.monotonic() < end:
            hunter.learn_tests(KEPT)
            waiting.sort(key=lambda mutant: len(hunter.tests_of(mutant)))  # the quickest first
        for mutant in waiting:
            if time.monotonic() < end:
                book.keep(mutant, hunter.tests_against(mutant))
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

    def keep(self, mutant: Mutant, fate: Fate) -> None:
        """Write it down and say it."""
        self._fates[_name(mutant)] = [fate.end, fate.by]
        self._file.write_text(json.dumps(self._fates, indent=0), encoding="utf-8")
        print(f"{fate.end:9} {mutant}{f'  ({fate.by})' if fate.by else ''}", flush=True)


def report(found: Sequence[Mutant], fates: Mapping[Mutant, Fate]) -> int:
    """Print the sums and the survivors; 1 when one of them is not explained."""
    reasons = accepted()
    unexplained = 0
    for mutant in found:
        if mutant in fates and fates[mutant].end == "survived":
            reason = reasons.get((mutant.path, mutant.before, mutant.after))
            unexplained += reason is None
            print(f"survivor  {mutant}\n          {reason or 'NOT EXPLAINED: add a test, or say why in accepted.toml'}")
    sums = Counter(fate.end for fate in fates.values())
    by_tests = sum("test" in fate.by for fate in fates.values() if fate.end == "killed")
    print(
        f"{sums.total() - sums['invalid']} mutants: {sums['killed']} killed ({by_tests} of them by tests only), "
        f"{sums['survived']} survived ({unexplained} not explained), {sums['waits']} passed the scenarios and wait for "
        f"the tests; besides {sums['invalid']} that are no Lua; {len(found) - len(fates)} not tried"
    )
    return 1 if unexplained else 0


def _name(mutant: Mutant) -> str:
    text = mutant.text(original(mutant.path))
    return f"{mutant.path}:{mutant.line}:{hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]}"


if __name__ == "__main__":
    sys.exit(main())
