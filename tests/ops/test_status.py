"""The status table: every number of every queue is readable."""

from __future__ import annotations

import io

from codemojex.ops.status import QueueStatus, show


def shown(*queues: QueueStatus) -> str:
    stream = io.StringIO()
    show(queues, stream, width=120)
    return stream.getvalue()


def test_every_queue_is_a_row_with_all_its_numbers() -> None:
    text = shown(
        QueueStatus("cm", "guesses", 12_345, 2, 3, 4, 56, 7), QueueStatus("cm.out", "messages", 0, 0, 0, 0, 0, 0)
    )
    (row,) = [line for line in text.splitlines() if "guesses" in line]
    assert row.replace("│", " ").split() == ["cm", "guesses", "12,345", "2", "3", "4", "56", "7"]
    assert "cm.out" in text


def test_a_paused_queue_says_so() -> None:
    assert "cm (paused)" in shown(QueueStatus("cm", "guesses", 0, 0, 0, 0, 0, 0, paused=True))


def test_what_is_no_terminal_gets_no_colours() -> None:
    assert "\x1b" not in shown(QueueStatus("cm", "guesses", 0, 0, 0, 9, 0, 0))
