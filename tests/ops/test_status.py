"""The status table: every number of every queue is readable, and comes from the server."""

from __future__ import annotations

import io
from dataclasses import replace

from codemojex.engine import ids
from codemojex.engine.ids import Minter
from codemojex.engine.inspection.metrics import Counts
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.claims import claim_many
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.transport.connector import Connector
from codemojex.ops.status import QueueStatus, read, show
from codemojex.play.archive.backlog import Backlog

QUIET = Counts(
    pending=0,
    flat=0,
    active=0,
    scheduled=0,
    dead=0,
    completed=0,
    failed=0,
    lanes=0,
    lanes_serviceable=0,
    lanes_paused=0,
    lanes_resting=0,
    lanes_active=0,
    lanes_truncated=False,
    oldest_age_ms=None,
    overdue_ms=0,
    paused=False,
)


def shown(*queues: QueueStatus) -> str:
    stream = io.StringIO()
    show(queues, stream, width=140)
    return stream.getvalue()


def row(text: str, purpose: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if purpose in line]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_every_queue_is_a_row_with_all_its_numbers() -> None:
    busy = replace(QUIET, pending=12_345, oldest_age_ms=61_000, lanes=9, active=2, scheduled=3, dead=4)
    text = shown(
        QueueStatus("cm", "guesses", replace(busy, completed=56, failed=7)), QueueStatus("cm.out", "messages", QUIET)
    )
    assert row(text, "guesses") == ["cm", "guesses", "12,345", "1 min", "9", "2", "3", "4", "56", "7", "0"]
    assert row(text, "messages") == ["cm.out", "messages", "0", "–", "0", "0", "0", "0", "0", "0", "0"]


def test_handlers_that_block_their_loop_are_counted() -> None:
    assert row(shown(QueueStatus("cm", "guesses", replace(QUIET, blocked=1_234))), "guesses")[-1] == "1,234"


def test_a_paused_queue_says_so() -> None:
    assert "cm (paused)" in shown(QueueStatus("cm", "guesses", replace(QUIET, paused=True)))


def test_finished_games_that_wait_for_the_archive_stand_below_the_table() -> None:
    stream = io.StringIO()
    show([QueueStatus("cm", "guesses", QUIET)], stream, unarchived=Backlog(3, 1, 65_000, 10_000, False))
    assert stream.getvalue().splitlines()[-1] == (
        "Archive: 3 finished games wait for the archive, the oldest for 65 s, 1 of them set aside by the archiver; "
        "10,000 may"
    )
    stream = io.StringIO()
    show([], stream, unarchived=Backlog(0, 0, 0, 10_000, False))
    assert stream.getvalue().splitlines()[-1] == "Archive: every finished game is archived"


def test_what_is_no_terminal_gets_no_colours() -> None:
    assert "\x1b" not in shown(QueueStatus("cm", "guesses", replace(QUIET, dead=9)))


def test_what_is_no_terminal_gets_the_whole_table() -> None:
    stream = io.StringIO()
    show([QueueStatus("a-queue-with-a-rather-long-name", "p" * 120, QUIET)], stream)
    assert "p" * 120 in stream.getvalue()


async def test_the_numbers_come_from_the_server(bus: Connector, queue: str) -> None:
    mint = Minter(1)
    lane = ids.derive("ROM", queue)
    await jobs.admit_many(bus, queue, [NewJob(mint.mint("JOB"), b"{}", lane=lane) for _ in range(3)])
    await jobs.admit_many(bus, queue, [NewJob(mint.mint("JOB"), b"{}", delay_ms=60_000)])
    await claim_many(bus, queue, 1, 60_000)
    (status,) = await read(bus, {queue: "guesses"})
    numbers = (status.counts.pending, status.counts.active, status.counts.scheduled, status.counts.lanes)
    assert numbers == (2, 1, 1, 1)
    assert row(shown(status), "guesses")[:2] == [queue, "guesses"]
