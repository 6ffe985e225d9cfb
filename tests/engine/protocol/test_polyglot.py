"""A worker in JavaScript that knows only the exported files drains a queue together with one in Python."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.inspection import metrics
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Retry
from codemojex.engine.jobs.settlement import Settled, Stale
from codemojex.engine.maintenance import recovery
from codemojex.engine.protocol import export
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.architecture.sources import ROOT
from tests.engine.bench import Bench, lane
from tests.engine.bench import running as at_work

pytestmark = pytest.mark.timeout(300)  # the first run installs the client
SOURCES = ROOT / "polyglot/node"
REQUIRED = os.environ.get("CI") == "true"
DEADLINE_S = 60.0

HANDLER = """
import { setTimeout as sleep } from 'node:timers/promises';
export async function handle(job, engine) {
  await engine.send(['RPUSH', process.env.JOURNAL, `node ${job.id} ${job.lane} ${job.token}`]);
  await sleep(5);
  if (String(job.payload) === 'once' && !job.failures) throw new Error('not yet');
}
"""
# Reads one call a line, [method, …arguments], and answers with one line of JSON.
CALLS = """
import { createInterface } from 'node:readline';
import { Engine } from './engine.js';
const [url, directory, queue] = process.argv.slice(2);
const engine = await Engine.connect(url, directory, queue);
for await (const line of createInterface({ input: process.stdin })) {
  const [method, ...args] = JSON.parse(line);
  const answer = await (async () => engine[method](...args))().catch((error) => ({ error: error.message }));
  const text = (key, value) => (value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value);
  process.stdout.write(`${JSON.stringify(answer ?? null, text)}\\n`);
}
await engine.close();
"""


def missing(what: str) -> None:
    """Skip here; fail where continuous integration runs."""
    if REQUIRED:
        pytest.fail(f"{what}: continuous integration needs it")
    pytest.skip(what)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the worker, its client and the exported files; the client is installed once per machine."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("node and npm are not installed")
    directory = tmp_path_factory.mktemp("node")
    for source in SOURCES.glob("*.js*"):
        shutil.copy(source, directory)
    (directory / "node_modules").symlink_to(installed(SOURCES / "package.json"))
    (directory / "handler.js").write_text(HANDLER)
    (directory / "calls.js").write_text(CALLS)
    export.write(directory / "protocol")
    return directory


def installed(package: Path) -> Path:
    """`node_modules` of a package file, kept in the temporary directory of this user under its digest."""
    digest = hashlib.sha256(package.read_bytes()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"codemojex-node-{os.getuid()}-{digest}"
    kept.mkdir(mode=0o700, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "done").exists():
            shutil.copy(package, kept)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
            ended = subprocess.run(command, cwd=kept, capture_output=True, text=True, timeout=240, check=False)
            if ended.returncode:
                missing(f"npm could not install the client: {ended.stderr.strip()[-300:]}")
            (kept / "done").touch()
    return kept / "node_modules"


@asynccontextmanager
async def running(directory: Path, *words: str, **env: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A Node process, ended by its signal at the end of the block; it must end well."""
    process = await asyncio.create_subprocess_exec(
        *("node", *words),
        cwd=directory,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
        if process.returncode is None:
            process.terminate()
        _, complaints = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 0, complaints.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def python_worker(bench: Bench, journal: str, seen: Counter[str]) -> AsyncGenerator[None]:
    async def handle(job: Job) -> None:
        seen[job.id] += 1
        await bench.bus.execute("RPUSH", journal, f"python {job.id} {job.lane} {job.token}")
        await asyncio.sleep(0.005)
        if job.payload == b"once" and not job.failures:
            raise RuntimeError("not yet")

    worker = Worker(bench.bus, bench.queue, handle, options=WorkerOptions(concurrency=4, beat_ms=200))
    async with at_work(worker):
        yield


class Peer:
    """The engine in Node, call by call."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def __call__(self, method: str, *args: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, *args]).encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), 20)
        assert line, "the peer ended"
        return json.loads(line)


@pytest.fixture
async def peer(node: Path, bench: Bench, valkey_url: str) -> AsyncIterator[Peer]:
    async with running(node, "calls.js", valkey_url, "protocol", bench.queue) as process:
        yield Peer(process)
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 20)


async def test_a_queue_is_drained_by_two_languages_each_job_once_and_fair_over_lanes(
    node: Path, bench: Bench, valkey_url: str
) -> None:
    journal = bench.space.key("stream:journal")  # any key of the queue will do
    flood, *light = (lane(i) for i in range(5))
    await bench.fill([flood] * 400)
    await bench.fill([name for name in light for _ in range(3)])
    await bench.fill([None] * 40)
    await bench.fill([flood, light[0], None], payload=b"once")
    total = 400 + 12 + 40 + 3
    seen: Counter[str] = Counter()
    words = ("--url", valkey_url, "--protocol", "protocol", "--queue", bench.queue, "--handler", "handler.js")
    async with (
        running(node, "worker.js", *words, "--concurrency", "4", JOURNAL=journal) as process,
        asyncio.timeout(DEADLINE_S),
    ):
        while not await bench.bus.execute("EXISTS", journal):
            assert process.returncode is None, "the worker in Node ended"
            await asyncio.sleep(0.01)
        async with python_worker(bench, journal, seen):
            while (await metrics.get_counts(bench.bus, bench.queue, ["completed"]))["completed"] < total:
                assert process.returncode is None, "the worker in Node ended"
                await asyncio.sleep(0.02)
    lines = [line.decode().split() for line in await bench.bus.execute("LRANGE", journal, 0, -1)]
    runs = Counter(job_id for _, job_id, _, _ in lines)
    assert sorted(runs.values()) == [1] * (total - 3) + [2] * 3, "each job once, those that failed once twice"
    assert len({(job_id, token) for _, job_id, _, token in lines}) == len(lines), "no token was given twice"
    assert {language for language, *_ in lines} == {"node", "python"}
    served = [name for _, _, name, _ in lines[:100]]
    assert all(served.count(name) >= 3 for name in light), "small lanes are served beside a large one"
    assert await bench.raw("ZCARD", "active") == 0
    await bench.bus.execute("DEL", journal)
    await bench.sound()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", 2, "missing --url, --protocol, --queue, --handler"),
        ("--protocol protocol --queue a:b", 2, "queue 'a:b' is not valid"),
        ("--protocol protocol --queue q", 1, "no connection to the server"),
    ],
)
def test_what_a_worker_cannot_begin_with_is_said_in_one_line(node: Path, words: str, code: int, said: str) -> None:
    given = f"--url unix:///nonexistent --handler handler.js {words}".split() if words else []
    ended = subprocess.run(
        ["node", "worker.js", *given], cwd=node, capture_output=True, text=True, timeout=60, check=False
    )
    lines = ended.stderr.splitlines()
    assert (ended.returncode, len(lines), said in lines[0]) == (code, 1, True), lines


async def test_a_token_that_the_other_language_has_taken_over_is_refused_both_ways(bench: Bench, peer: Peer) -> None:
    await bench.fill([lane(1), None])
    mine = (await peer("settle", [], 2))["jobs"]
    assert [job["token"] for job in mine] == ["1", "1"]
    for job in mine:
        await bench.raw("ZADD", "active", "XX", 1, job["id"])
    await recovery.recover(bench.bus, bench.queue)
    ours = await bench.take(2)
    assert {job.token for job in ours} == {"2"}
    late = [[job["id"], job["token"], kind] for job in mine for kind in ("complete", "give_back")]
    assert [code for code, _ in (await peer("settle", late))["verdicts"]] == ["stale"] * 4
    assert await peer("extend", [[job["id"], "1"] for job in mine], 1_000) == ["stale"] * 2
    await bench.lapse(*ours)
    await peer("recover")
    again = (await peer("settle", [], 2))["jobs"]
    assert [(job["token"], job["stalled"]) for job in again] == [("3", 2)] * 2
    for job in ours:
        assert await bench.settle(job, Complete()) == Stale()
        assert await bench.settle(job, Retry("late")) == Stale()
    done = [[job["id"], job["token"], "complete"] for job in again]
    assert (await peer("settle", done))["verdicts"] == [["settled", "completed"]] * 2
    await bench.sound()


async def test_what_the_other_language_admits_and_retries_means_the_same_here(bench: Bench, peer: Peer) -> None:
    made = [bench.id() for _ in range(3)]
    jobs = [
        {"id": made[0], "payload": "flat"},
        {"id": made[1], "payload": "laned", "lane": lane(1), "max_attempts": 2, "backoff": "fixed:0"},
        {"id": made[2], "payload": "later", "delay": 60_000},
        {"id": made[0], "payload": "flat"},
        {"id": "ORD" + made[0][3:], "payload": "x"},
    ]
    codes = [code for code, _ in await peer("admit", jobs)]
    assert codes == ["enqueued", "enqueued", "scheduled", "duplicate", "kind"]
    assert await bench.row(made[0]) == {"state": "pending", "attempts": "0", "payload": "flat"}
    await bench.sound()
    for failures, verdict in ((1, ["settled", "scheduled"]), (2, ["settled", "dead"])):
        held = {job["id"]: job for job in (await peer("settle", [], 5))["jobs"]}
        job = held.pop(made[1])
        give_back = [[other["id"], other["token"], "give_back"] for other in held.values()]
        items = [[job["id"], job["token"], "retry", "no", None, 0.5], *give_back]
        assert (await peer("settle", items))["verdicts"][0] == verdict
        assert (await bench.row(made[1]))["failures"] == str(failures)
        await peer("promote")
    (flat,) = await bench.take()
    assert (flat.id, flat.payload) == (made[0], b"flat")
    assert await bench.settle(flat) == Settled("completed")
    await bench.sound()


async def test_ids_of_the_other_language_are_ids_here(bench: Bench, peer: Peer, node: Path, valkey_url: str) -> None:
    script = f"""
import {{ Engine }} from './engine.js';
import {{ readFileSync }} from 'node:fs';
const engine = await Engine.connect({json.dumps(valkey_url)}, 'protocol', {json.dumps(bench.queue)});
const made = Array.from({{ length: 9000 }}, () => engine.mint('JOB'));
const vectors = engine.ids.valid.map((v) => engine.brand(v.namespace, BigInt(v.snowflake)) === v.id);
console.log(JSON.stringify([engine.node, made, vectors]));
await engine.close();
"""
    (node / f"{bench.queue}.mjs").write_text(script)
    process = await asyncio.create_subprocess_exec(
        *("node", f"{bench.queue}.mjs"), cwd=node, stdout=asyncio.subprocess.PIPE, limit=1 << 20
    )
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    number, made, vectors = json.loads(output)
    assert all(vectors)
    assert len(vectors) > 5
    assert made == sorted(set(made))
    assert {ids.parse(i).node for i in made} == {number}
    now = int((await bench.bus.execute("TIME"))[0]) * 1000
    assert abs(ids.parse(made[0]).unix_ms - now) < 60_000


async def test_a_node_number_that_was_lost_is_replaced(bench: Bench, peer: Peer) -> None:
    lost = ids.parse(await peer("mint", "JOB")).node
    await bench.bus.execute("HSET", keyspace.NODES_KEY, lost, "99999999999999:somebody")
    await peer("renewNode")
    fresh = ids.parse(await peer("mint", "JOB")).node
    await bench.bus.execute("HDEL", keyspace.NODES_KEY, lost)
    assert fresh != lost


async def test_a_worker_that_is_stopped_gives_back_what_it_holds(node: Path, bench: Bench, valkey_url: str) -> None:
    await bench.fill([None] * 30)
    journal = bench.space.key("stream:journal")
    words = ("--url", valkey_url, "--protocol", "protocol", "--queue", bench.queue, "--handler", "handler.js")
    async with running(node, "worker.js", *words, "--concurrency", "1", JOURNAL=journal), asyncio.timeout(DEADLINE_S):
        while not await bench.bus.execute("EXISTS", journal):
            await asyncio.sleep(0.01)
    assert await bench.raw("ZCARD", "active") == 0
    await bench.bus.execute("DEL", journal)
    await bench.sound()
