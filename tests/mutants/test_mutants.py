"""The run of mutants notices a defect that a scenario or test sees, and names one that they do not see."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from codemojex.engine.protocol.conformance.runner import Scenario
from codemojex.engine.protocol.conformance.table import SCENARIOS
from codemojex.engine.scripts import ENGINE
from tests.mutants import hunt
from tests.mutants.__main__ import accepted, every, report
from tests.mutants.hunt import NOBODY, Fate, Hunter, Seen
from tests.mutants.mutations import DROPPED, FLIPPED, LITERAL, SWAPPED, Mutant, mutants
from tests.mutants.override import original, override
from tests.mutants.probes import statements

PROGRESS = [s for s in SCENARIOS if s.name == "update_progress"]
CLAIM = [s for s in SCENARIOS if s.name == "claim"]


@pytest.fixture
def hunter() -> Iterator[Callable[..., Hunter]]:
    made: list[Hunter] = []

    def make(scenarios: list[Scenario], tests: dict[str, Seen] | None = None) -> Hunter:
        made.append(Hunter(scenarios, tests or {}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def dropped(path: str, piece: str) -> Mutant:
    """The mutant that lacks the line with `piece`."""
    return next(m for m in mutants(path, original(path)) if piece in m.before and not m.after)


async def test_a_dropped_line_that_a_scenario_needs_is_killed_by_it(hunter: Callable[..., Hunter]) -> None:
    hunting = hunter(CLAIM)
    await hunting.learn()
    assert await hunting.scenarios_against(dropped("include/claim.lua", "'active', unpack")) == Fate("killed", "claim")


async def test_a_dropped_line_that_no_scenario_needs_is_left_to_the_tests(hunter: Callable[..., Hunter]) -> None:
    hunting = hunter(CLAIM)
    await hunting.learn()
    mutant = dropped("include/claim.lua", "if mixed then redis.call('SET'")
    assert await hunting.scenarios_against(mutant) == Fate("waits")
    assert hunting.tests_against(mutant) == Fate("survived")
    never_run = dropped("progress.lua", "'HSET'")
    assert await hunting.scenarios_against(never_run) == Fate("waits")
    assert hunting.tests_against(never_run) == Fate("survived", NOBODY)


async def test_what_no_scenario_runs_is_killed_by_the_test_that_runs_it(hunter: Callable[..., Hunter]) -> None:
    test = "tests/engine/jobs/test_progress.py::test_progress_of_a_missing_job_is_typed_absent_and_makes_nothing"
    mutant = dropped("progress.lua", "'EXISTS'")
    hunting = hunter([], {test: Seen(0.1, {(mutant.path, mutant.line)})})
    assert await hunting.scenarios_against(mutant) == Fate("waits")
    assert hunting.tests_against(mutant) == Fate("killed", test)
    assert hunting.tests_against(Mutant(mutant.path, mutant.line, mutant.before, mutant.before)) == Fate("survived")


async def test_a_loop_without_an_end_is_killed_and_the_next_mutant_meets_a_fresh_server(
    hunter: Callable[..., Hunter], monkeypatch: pytest.MonkeyPatch
) -> None:
    hunting = hunter(PROGRESS)
    await hunting.learn()
    last = dropped("progress.lua", "return 1")
    monkeypatch.setattr(hunt, "SCENARIO_S", 1.0)
    endless = Mutant(last.path, last.line, last.before, "while true do end")
    assert await hunting.scenarios_against(endless) == Fate("killed", "update_progress")
    assert await hunting.scenarios_against(Mutant(last.path, last.line, last.before, last.before)) == Fate("waits")


async def test_a_mutant_that_is_no_lua_does_not_count(hunter: Callable[..., Hunter]) -> None:
    hunting = hunter(PROGRESS)
    await hunting.learn()
    last = dropped("progress.lua", "return 1")
    assert await hunting.scenarios_against(Mutant(last.path, last.line, last.before, "return )")) == Fate("invalid")


def test_each_kind_of_change_is_made_and_headers_comments_strings_and_large_literals_are_left_alone() -> None:
    text = "--- x: a + b\nlocal a = f(-1, 'x == 1', 500) -- a + b\nif a + 1 <= 2 and true then\n  g(a)\nend\n"
    made = {(m.line, m.after, m.kind) for m in mutants("x.lua", text)}
    assert made == {
        (2, "", DROPPED),
        (2, "local a = f(-2, 'x == 1', 500) -- a + b", LITERAL),
        (3, "if a - 1 <= 2 and true then", SWAPPED),
        (3, "if a + 2 <= 2 and true then", LITERAL),
        (3, "if a + 1 > 2 and true then", FLIPPED),
        (3, "if a + 1 <= 3 and true then", LITERAL),
        (3, "if a + 1 <= 2 or true then", SWAPPED),
        (3, "if a + 1 <= 2 and false then", SWAPPED),
        (4, "", DROPPED),
    }


def test_every_line_of_code_belongs_to_the_statement_that_runs_it() -> None:
    text = """--- x
local a =
  f({
    1,
  })
if a then
  g()
elseif b
  and c then
  return function()
    h()
  end
end
"""
    assert statements(text) == {2: 2, 3: 2, 4: 2, 5: 2, 6: 6, 7: 7, 8: 6, 9: 6, 10: 10, 11: 11, 12: 10, 13: 6}


def test_every_mutant_differs_from_its_file_in_one_line_and_the_file_is_back_after_it() -> None:
    for mutant in every()[::25]:
        text = original(mutant.path)
        pairs = zip(text.splitlines(), mutant.text(text).splitlines(), strict=True)
        assert [n for n, (old, new) in enumerate(pairs, 1) if old != new] == [mutant.line]
    mutant = dropped("include/claim.lua", "'active', unpack")
    before = ENGINE.script("settle")
    with override({mutant.path: mutant.text(original(mutant.path))}):
        assert ENGINE.script("settle") != before
    assert ENGINE.script("settle") == before


def test_a_survivor_without_a_reason_makes_the_run_fail(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = dropped("progress.lua", "return 1")
    assert report([mutant], {mutant: Fate("killed", "x")}) == 0
    assert report([mutant], {mutant: Fate("survived")}) == 1
    assert f"survived  {mutant}" in capsys.readouterr().out


@pytest.mark.parametrize("fates", [{}, {"end": "waits"}, {"end": "undecided"}])
def test_a_mutant_of_which_nothing_is_known_is_no_killed_one(
    fates: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    mutant = dropped("progress.lua", "return 1")
    assert report([mutant], {mutant: Fate(**fates)} if fates else {}) == 2
    assert "1 mutants are not decided" in capsys.readouterr().out


def test_every_accepted_survivor_is_still_a_mutant_and_has_a_reason() -> None:
    known = {(m.path, m.before, after) for m in every() for after in (m.after, None)}
    for entry, reason in accepted().items():
        assert entry in known, f"accepted.toml speaks of a mutant that is gone: {entry}"
        assert len(reason.split()) > 4, entry
