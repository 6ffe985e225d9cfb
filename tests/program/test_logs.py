"""The log: one structured line a record, and no secret in any part of it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from codemojex import logs

TOKEN = "123456789:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQ"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_record_of_the_standard_library_becomes_one_json_line_with_its_fields(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logging.getLogger("codemojex.engine").warning("lease lost", extra={"job": "JOB1", "n": 3})
    line = json.loads(stream.getvalue())
    assert (line["event"], line["job"], line["n"], line["level"]) == ("lease lost", "JOB1", 3, "warning")
    assert line["logger"] == "codemojex.engine"


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_are_hidden_in_message_field_nested_field_and_traceback(
    stream: io.StringIO, form: Literal["json", "console"]
) -> None:
    logs.configure(form=form, secrets=["s3cret-value"], stream=stream)
    log = logging.getLogger("codemojex.bot")
    log.error("POST /bot%s/getMe failed", TOKEN)
    log.error("at valkey://me:hunter22@host:1/0", extra={"deep": {"list": [f"x{TOKEN}x", b"s3cret-value"]}})
    log.error("fields", extra={"bot_token": "tiny", "secret": ["🍎"], "password": "pw"})
    try:
        raise ValueError(f"no such bot: {TOKEN} s3cret-value")
    except ValueError:
        log.exception("failed")
    structlog.get_logger("other").error("structured", url=f"https://h/bot{TOKEN}/x")
    text = stream.getvalue()
    for secret in (TOKEN, "AAbbCC", "hunter22", "s3cret-value", "tiny", "🍎", '"pw"'):
        assert secret not in text, secret
    assert text.count("structured") == 1
    assert "ValueError" in text


def test_records_below_the_level_are_not_written(stream: io.StringIO) -> None:
    logs.configure(level="warning", stream=stream)
    logging.getLogger("codemojex").info("chatter")
    assert stream.getvalue() == ""


def test_values_that_are_no_text_keep_their_type(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logging.getLogger("x").warning("m", extra={"count": 5, "ratio": 0.5, "flag": True, "none": None, "ids": [1, 2]})
    line = json.loads(stream.getvalue())
    assert [line[k] for k in ("count", "ratio", "flag", "none", "ids")] == [5, 0.5, True, None, [1, 2]]


def test_a_second_set_up_replaces_the_first(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logs.configure(stream=stream)
    logging.getLogger("x").warning("once")
    assert stream.getvalue().count("once") == 1
