"""Settings: the presets as published, overrides, and errors that name the setting and the remedy."""

import json
from dataclasses import replace

import pytest

from codemojex.game.presets import MODES, PRESETS, GameSettings, GameSettingsError, settings_for
from codemojex.game.sets import EMOJI_SETS


@pytest.mark.parametrize(
    ("preset", "numbers", "feedback"),
    [
        ("quick", (4, 8, 8, 600), {"tiles"}),
        ("classic", (6, 12, 12, 3600), {"total", "pegs"}),
        ("expert", (6, 24, 15, 86400), {"total"}),
        ("blind", (6, 12, 3, 86400), set()),
    ],
)
def test_presets_are_as_published(preset: str, numbers: tuple[int, ...], feedback: set[str]) -> None:
    settings = settings_for(preset)
    assert (settings.length, len(settings.palette), settings.tries, settings.duration_s) == numbers
    assert settings.feedback == feedback
    assert settings.blind == (not feedback)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("set_name", EMOJI_SETS)
def test_every_preset_works_in_every_mode_with_every_set(preset: str, mode: str, set_name: str) -> None:
    settings = settings_for(preset, mode, set_name=set_name)
    assert settings.palette == EMOJI_SETS[set_name].tokens[: len(settings.palette)]
    assert GameSettings.from_data(json.loads(json.dumps(settings.to_data()))) == settings


@pytest.mark.parametrize("length", range(3, 9))
def test_codes_of_three_to_eight_are_allowed(length: int) -> None:
    assert settings_for("classic", length=length).length == length


@pytest.mark.parametrize(
    ("changes", "setting", "sentence"),
    [
        ({"preset": "clasic"}, "preset", "did you mean 'classic'"),
        ({"preset": "zzz"}, "preset", "choose one of quick, classic, expert, blind"),
        ({"mode": "rase"}, "mode", "did you mean 'race'"),
        ({"set_name": "fruits"}, "set_name", "did you mean 'fruit'"),
        ({"trys": 3}, "override", "did you mean 'tries'"),
        ({"length": 2}, "length", "from 3 to 8"),
        ({"length": 9}, "length", "from 3 to 8"),
        ({"length": 4.0}, "length", "from 3 to 8"),
        ({"length": 8, "palette_size": 7}, "palette", "from 8 to 24"),
        ({"palette_size": 25}, "palette_size", "from 3 to 24"),
        ({"tries": 0}, "tries", "from 1 to 100"),
        ({"tries": True}, "tries", "from 1 to 100"),
        ({"duration_s": 0}, "duration_s", "from 1 to 604800"),
        ({"duration_s": 604801}, "duration_s", "from 1 to 604800"),
        ({"feedback": {"tile"}}, "feedback", "did you mean 'tiles'"),
        ({"palette": ["🍎", "🍎\ufe0f", "🍋"], "length": 3}, "palette", "twice"),
        ({"palette": ["🍎🍋", "🍇", "🍓"], "length": 3}, "palette", "not one canonical emoji"),
        ({"palette": ["", "🍇", "🍓"], "length": 3}, "palette", "not one canonical emoji"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name_with_what_is_allowed(
    changes: dict, setting: str, sentence: str
) -> None:
    with pytest.raises(GameSettingsError, match=sentence) as error:
        settings_for(**{"preset": "classic", **changes})
    assert error.value.setting == setting
    assert str(error.value).startswith(setting + ": ")


def test_settings_cannot_be_made_invalid_past_the_presets() -> None:
    with pytest.raises(GameSettingsError, match="from 3 to 8"):
        replace(settings_for("quick"), length=12)
    with pytest.raises(GameSettingsError, match="canonical"):
        replace(settings_for("quick"), palette=("🍎\ufe0f", "🍋", "🍇", "🍓"))


def test_a_given_palette_is_taken_in_any_spelling() -> None:
    settings = settings_for("quick", palette=["❤\ufe0f", "🍋", "🍇", "🍓"], tries=2)
    assert settings.palette == ("❤", "🍋", "🍇", "🍓")
    assert settings.tries == 2


def test_settings_of_a_newer_version_are_readable() -> None:
    settings = settings_for("expert", "team")
    assert GameSettings.from_data({**settings.to_data(), "hard": True}) == settings
