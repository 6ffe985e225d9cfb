"""Events as they are stored: they survive JSON, tolerate a newer writer, and keep the secret until the close."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game.events import (
    Event,
    EventVersionError,
    GameClosed,
    GameExhausted,
    GameOpened,
    GameSettled,
    GuessScored,
    UnknownEvent,
    event_from,
)
from codemojex.game.fields import DataError
from codemojex.game.fold import fold
from tests.game.games import ADA, BORIS, Game


def whole_game() -> list[Event]:
    game = Game()
    late, early = game.accepted(ADA), game.accepted(BORIS)
    events: list[Event] = [game.opened(), late, early, game.scored(late, "0132"), game.scored(early, "0123")]
    void = game.accepted(ADA)
    events.append(GameExhausted(3, 1_000))
    events += [game.cracked(early), void, game.refused(void), game.closed("cracked", 2, BORIS)]
    return [*events, GameSettled(fold(events).final_standings())]


EVENTS = whole_game()
each_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)


def stored(event: Event) -> dict:
    assert not isinstance(event, UnknownEvent)
    return json.loads(json.dumps(event.to_data()))


@each_event
def test_an_event_survives_json(event: Event) -> None:
    assert event_from(event.kind, stored(event)) == event
    assert stored(event)["v"] == 1


@each_event
def test_fields_of_a_newer_version_are_passed_over(event: Event) -> None:
    assert event_from(event.kind, {**stored(event), "mood": {"deep": [1]}}) == event


@each_event
def test_a_missing_or_malformed_field_is_named(event: Event) -> None:
    data = stored(event)
    optional = {"v", "cut", "winner"}
    for field in set(data) - optional:
        with pytest.raises(DataError, match=field):
            event_from(event.kind, {key: value for key, value in data.items() if key != field})
        with pytest.raises(DataError, match=field):
            event_from(event.kind, {**data, field: True})


def test_every_kind_of_the_design_exists() -> None:
    assert {event.kind for event in EVENTS} == {
        "game.opened",
        "guess.accepted",
        "guess.scored",
        "guess.refused",
        "game.cracked",
        "game.exhausted",
        "game.closed",
        "game.settled",
    }


def test_an_unknown_kind_is_passed_over_but_a_newer_version_of_a_known_one_is_refused() -> None:
    assert event_from("hint.given", {"v": 7}) == UnknownEvent("hint.given")
    with pytest.raises(EventVersionError, match="upgrade"):
        event_from("game.cracked", {"v": 2, "player": ADA, "seq": 1, "guess": "GES1"})


@pytest.mark.parametrize(("field", "value"), [("pegs", [1]), ("tiles", "GGX-"), ("points", [1.5]), ("codes", [1])])
def test_a_malformed_score_is_refused(field: str, value: object) -> None:
    scored = next(event for event in EVENTS if isinstance(event, GuessScored))
    with pytest.raises(DataError, match=field):
        event_from(scored.kind, {**stored(scored), field: value})


def test_an_unknown_reason_of_a_close_is_refused() -> None:
    with pytest.raises(DataError, match="reason"):
        event_from(GameClosed.kind, {**stored(Game().closed()), "reason": "bored"})


@given(st.permutations("01234567").map(lambda order: "".join(order[:4])))
def test_no_event_before_the_close_contains_the_secret(hidden: str) -> None:
    game = Game(hidden=hidden)
    accepted = game.accepted(ADA)
    careless = GuessScored(ADA, "PLR1", "Ada", 1, 1, game.secret, game.scored(accepted, hidden).score)
    events = [game.opened(), accepted, game.scored(accepted, hidden), careless, game.cracked(accepted)]
    for event in events:
        listed = [stored(event).get(field, []) for field in ("codes", "secret")]
        assert list(game.secret) not in listed
        if not isinstance(event, GameOpened):
            assert not any(token in json.dumps(stored(event), ensure_ascii=False) for token in game.secret)
    assert stored(game.closed())["secret"] == list(game.secret)
