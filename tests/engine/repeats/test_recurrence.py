"""Slots follow from the schedule alone: no drift, summer time, and what happens to the missed ones."""

from __future__ import annotations

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.engine.errors import InvalidValue
from codemojex.engine.repeats.recurrence import All, Cron, Every, One, Plan, Skip, catch_up_of, plan

BERLIN = "Europe/Berlin"


def ms(text: str, zone: str = "UTC", fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()) * 1000


def slots(schedule: Cron, start: int, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        following = schedule.following(found[-1] if found else start)
        assert following is not None
        found.append(following)
    return found


def test_a_cron_expression_is_read_on_the_clocks_of_its_zone() -> None:
    daily = Cron("30 7 * * *", BERLIN)
    assert slots(daily, ms("2026-01-10T00:00"), 2) == [ms("2026-01-10T06:30"), ms("2026-01-11T06:30")]
    assert slots(daily, ms("2026-07-10T00:00"), 1) == [ms("2026-07-10T05:30")]
    assert slots(Cron("15 30 7 * * MON"), ms("2026-11-28T00:00"), 1) == [ms("2026-11-30T07:30:15")]


def test_a_time_that_spring_skips_comes_once_behind_the_gap() -> None:
    found = slots(Cron("30 2 * * *", BERLIN), ms("2026-03-28T12:00"), 2)
    assert found == [ms("2026-03-29T03:00", BERLIN), ms("2026-03-30T02:30", BERLIN)]


@pytest.mark.parametrize("start", ["2026-10-24T12:00", "2026-10-25T00:20", "2026-10-25T00:30", "2026-10-25T01:10"])
def test_a_time_that_autumn_repeats_comes_once_from_wherever_one_looks(start: str) -> None:
    first, next_day = ms("2026-10-25T02:30", BERLIN), ms("2026-10-26T02:30", BERLIN)
    expected = first if ms(start) < first else next_day
    assert slots(Cron("30 2 * * *", BERLIN), ms(start), 1) == [expected]


def test_every_quarter_of_an_hour_goes_on_through_the_repeated_hour() -> None:
    found = slots(Cron("*/15 * * * *", BERLIN), ms("2026-10-25T00:00"), 12)
    assert {b - a for a, b in itertools.pairwise(found)} == {900_000}


@pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "0 0 30 2 *", "@daily", "* * * * * * *", "x" * 300])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Cron(text)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../etc/passwd", "/etc/localtime"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidValue, match="time zone"):
        Cron("0 0 * * *", zone)


@given(st.integers(0, 10**6), st.integers(1, 5_000), st.integers(0, 10**6), st.integers(1, 100))
def test_an_interval_never_drifts_whatever_was_missed(slot: int, every: int, late: int, at_most: int) -> None:
    found = plan(Every(every), All(at_most), slot, slot + late)
    every_slot = list(range(slot, slot + late + 1, every))
    assert list(found.fire) == every_slot[-at_most:]
    assert found.next_ms == every_slot[-1] + every


def test_policies_for_missed_slots() -> None:
    late = 3 * 60_000 + 5_000  # three whole minutes and five seconds
    minute = Every(60_000)
    assert plan(minute, One(), 0, late) == Plan((180_000,), 240_000)
    assert plan(minute, All(3), 0, late) == Plan((60_000, 120_000, 180_000), 240_000)
    assert plan(minute, Skip(10_000), 0, late) == Plan((180_000,), 240_000)
    assert plan(minute, Skip(4_000), 0, late) == Plan((), 240_000)
    assert plan(minute, One(), late + 1, late) == Plan((), late + 1)


def test_nothing_fires_after_the_end_and_the_last_slot_is_the_last() -> None:
    minute = Every(60_000)
    assert plan(minute, One(), 0, 0, until_ms=60_000) == Plan((0,), 60_000)
    assert plan(minute, One(), 60_000, 60_000, until_ms=60_000) == Plan((60_000,), None)
    assert plan(minute, All(9), 0, 600_000, until_ms=130_000) == Plan((0, 60_000, 120_000), None)
    assert plan(minute, One(), 60_000, 60_000, until_ms=1) == Plan((), None)


def test_a_year_of_missed_minutes_is_caught_up_within_bounds() -> None:
    minutely = Cron("* * * * *", BERLIN)
    start, now = ms("2025-01-01T00:00"), ms("2026-01-01T00:00:30")
    found = plan(minutely, All(3), start, now)
    assert [now - slot for slot in found.fire] == [150_000, 90_000, 30_000]
    assert found.next_ms == now + 30_000


def test_a_first_slot_that_the_expression_does_not_name_fires_as_well() -> None:
    start = ms("2026-01-01T00:00:07")
    found = plan(Cron("* * * * *"), One(), start, start + 1)
    assert found == Plan((start,), ms("2026-01-01T00:01"))


@pytest.mark.parametrize("policy", [Skip(5), One(), All(7)])
def test_a_policy_survives_its_wire_form(policy: Skip | One | All) -> None:
    assert catch_up_of(policy.wire) == policy


@pytest.mark.parametrize("wire", ["", "one:1", "all", "all:0", "all:101", "all:-1", "skip:x", "skip:", "never"])
def test_an_unknown_policy_is_refused(wire: str) -> None:
    with pytest.raises(InvalidValue):
        catch_up_of(wire)
