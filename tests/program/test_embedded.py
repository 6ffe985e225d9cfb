"""The embedded server: data survives, directories are not shared, left-overs are replaced, reasons are one line."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from codemojex import embedded
from codemojex.embedded import EmbeddedServerError, data_directory, embedded_valkey, running_instance, server_url
from tests.support.waiting import until

HOLD_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from redis.asyncio import Redis
from codemojex.embedded import data_directory, embedded_valkey

async def main():
    with data_directory(Path(sys.argv[1])) as directory:
        async with embedded_valkey(directory) as url:
            client = Redis.from_url(url)
            await client.set("k", "v")
            print("ready", flush=True)
            await asyncio.sleep(60)

asyncio.run(main())
"""


async def run(url: str, *command: str) -> object:
    client = Redis.from_url(url)
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()


async def attempt(url: str, *command: str) -> object:
    """The reply, or None while the server is away."""
    try:
        return await run(url, *command)
    except (RedisConnectionError, OSError):
        return None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed child of a killed parent may stand in the process table until somebody buries it.
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def pid_in(directory: Path) -> int:
    return int((directory / "valkey.pid").read_text())


async def test_data_survives_a_restart(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path / "d") as url:
        await run(url, "SET", "k", "v")
    async with embedded_valkey(tmp_path / "d") as url:
        assert await run(url, "GET", "k") == b"v"


async def test_without_aof_nothing_is_kept(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path, aof=False) as url:
        await run(url, "SET", "k", "v")
    async with embedded_valkey(tmp_path, aof=False) as url:
        assert await run(url, "GET", "k") is None


async def test_it_keeps_an_append_only_file_evicts_nothing_and_opens_no_port(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path) as url:
        for name, value in {"appendfsync": b"everysec", "maxmemory-policy": b"noeviction", "port": b"0"}.items():
            answer = await run(url, "CONFIG", "GET", name)
            assert value in (answer.values() if isinstance(answer, dict) else answer), name  # type: ignore[operator]
        assert (tmp_path / "valkey.sock").stat().st_mode & 0o077 == 0


async def test_an_interrupt_of_the_terminal_does_not_reach_the_server(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path):
        assert os.getpgid(pid_in(tmp_path)) != os.getpgid(0)


async def test_the_server_ends_in_order_with_the_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with embedded_valkey(tmp_path):
        pid = pid_in(tmp_path)
    assert not alive(pid)
    assert "killed" not in caplog.text


async def test_a_server_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_STOP_S", 0.1)
    async with embedded_valkey(tmp_path):
        pid = pid_in(tmp_path)
        os.kill(pid, signal.SIGSTOP)
    assert not alive(pid)


async def test_a_second_server_over_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path):
        with pytest.raises(EmbeddedServerError, match="another running process uses"):
            async with embedded_valkey(tmp_path):
                pass


def test_a_second_instance_takes_the_next_directory_and_gives_it_back(tmp_path: Path) -> None:
    with data_directory(tmp_path) as first:
        with data_directory(tmp_path) as second:
            assert (first.name, second.name) == ("play", "play-2")
        with data_directory(tmp_path) as again:
            assert again == second
    with data_directory(tmp_path) as after:
        assert after == first


async def test_the_running_instance_is_found_and_nothing_is_made_by_looking(tmp_path: Path) -> None:
    assert await running_instance(tmp_path / "none") is None
    (tmp_path / "play").mkdir()
    async with embedded_valkey(tmp_path / "play-2") as url:
        assert await running_instance(tmp_path) == tmp_path / "play-2"
        assert server_url(tmp_path / "play-2") == url
    assert await running_instance(tmp_path) is None
    assert not (tmp_path / "none").exists()


@pytest.fixture
def left_over(tmp_path: Path) -> Iterator[int]:
    """The process of a server whose program was killed; it runs over `tmp_path/play` and holds k = v."""
    with subprocess.Popen([sys.executable, "-c", HOLD_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
    pid = pid_in(tmp_path / "play")
    assert alive(pid)
    yield pid
    if alive(pid):
        os.kill(pid, signal.SIGKILL)


async def test_the_server_of_a_killed_program_is_replaced_and_its_data_kept(tmp_path: Path, left_over: int) -> None:
    with data_directory(tmp_path) as directory:
        assert directory.name == "play"
        async with embedded_valkey(directory) as url:
            assert await run(url, "GET", "k") == b"v"
            assert not alive(left_over)


async def test_a_left_over_server_that_does_not_listen_is_killed(
    tmp_path: Path, left_over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_STOP_S", 0.1)
    monkeypatch.setattr(embedded, "_TAKE_OVER_S", 0.4)
    os.kill(left_over, signal.SIGSTOP)
    async with embedded_valkey(tmp_path / "play") as url:
        assert await run(url, "GET", "k") == b"v"
        assert not alive(left_over)


async def test_another_program_with_the_number_of_a_dead_server_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        (tmp_path / "valkey.pid").write_text(str(bystander.pid))
        async with embedded_valkey(tmp_path) as url:
            assert await run(url, "PING")
        assert bystander.poll() is None
        bystander.kill()


async def test_a_server_that_dies_is_started_again_on_the_same_address(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path) as url:
        await run(url, "SET", "k", "v")
        first = pid_in(tmp_path)
        os.kill(first, signal.SIGKILL)
        await until(lambda: pid_in(tmp_path) != first)
        async with asyncio.timeout(10):
            while await attempt(url, "GET", "k") != b"v":
                await asyncio.sleep(0.02)


async def test_a_server_that_keeps_dying_ends_the_block_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_MAX_RESTARTS", 0)
    with pytest.raises(EmbeddedServerError, match="keeps dying"):
        async with embedded_valkey(tmp_path):
            os.kill(pid_in(tmp_path), signal.SIGKILL)
            await asyncio.sleep(10)


async def test_a_long_path_moves_only_the_socket(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 20) / ("and longer" * 5)
    async with embedded_valkey(directory) as url:
        await run(url, "SET", "k", "v")
        assert len(url) < 120
    async with embedded_valkey(directory) as again:
        assert again == url
        assert await run(again, "GET", "k") == b"v"


async def test_an_error_inside_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with embedded_valkey(tmp_path):
            raise LookupError("mine")


async def test_an_unsupported_machine_is_one_line_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import platform

    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(EmbeddedServerError, match="riscv64") as caught:
        async with embedded_valkey(tmp_path):
            pass
    assert "CODEMOJEX_VALKEY_URL" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_binary_that_does_not_run_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "valkey-server"
    broken.write_bytes(b"\x7fELF not really")
    broken.chmod(0o755)
    monkeypatch.setattr(embedded, "get_binary_path", lambda: broken)
    with pytest.raises(EmbeddedServerError, match="does not run on this machine"):
        async with embedded_valkey(tmp_path / "d"):
            pass


async def test_a_failed_start_shows_the_last_line_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").write_text("a file where the server wants a directory")
    with pytest.raises(EmbeddedServerError, match=r"ended at its start: .*append") as caught:
        async with embedded_valkey(tmp_path):
            pass
    assert "\n" not in str(caught.value)


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedServerError, match="choose another data directory"), data_directory(tmp_path / "file"):
        pass
