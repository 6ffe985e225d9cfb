"""The engine's tests against mutants: one pytest process collects them once, and each try is a fork of it.

What each test runs is learned from a run without any mutant and kept; a file of tests that was edited since is run
again to find out, and all of them when the Lua was edited. The part that lives inside pytest is plugin.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import Pipe
from pathlib import Path

from tests.mutants.override import original, paths
from tests.mutants.probes import Lines

ROOT = Path(__file__).parents[2]
NO_END = "no end"
STORIES = "tests/mutants/stories.py"
_LEARN_S = 3600.0
_COLLECT_S = 120.0
# Not asked: these look at texts and not at behaviour, play the scenarios or tell the stories again, or start processes
# and servers that a mutant does not reach.
_NO_TESTS_OF_BEHAVIOUR = (
    *(
        "test_conformance",
        "test_model",
        "test_export",
        "test_lua_bounds",
        "test_scripts",
        "test_polyglot",
        "test_zombie_workers",
    ),
    *("test_topologies_cluster", "test_topologies_sentinel", "test_topologies_server", "test_flows_cluster"),
)


class Suite:
    """Tests, collected and ready. `close` it in the end."""

    def __init__(self, files: Sequence[str]) -> None:
        """`files`: below the project's root. Raises RuntimeError when pytest does not come up."""
        self._room = tempfile.TemporaryDirectory(prefix="cmxm-")  # of servers whose test did not end
        self._pipe, there = Pipe()
        more = {"MUTANT_PIPE": str(there.fileno()), "TMPDIR": self._room.name}
        self._process = _pytest(files, more, pass_fds=(there.fileno(),))
        there.close()
        if not self._pipe.poll(_COLLECT_S) or self._pipe.recv() != "ready":
            self.close()
            raise RuntimeError("pytest does not collect the engine's tests")

    def first_failure(self, path: str, text: str, tests: Sequence[str], seconds: float) -> str:
        """Run `tests` in their order, the file `path` reading `text`: the first that fails, '' when all hold.

        `NO_END` when they take longer than `seconds`.
        """
        self._pipe.send((path, text, list(tests), seconds))
        return self._pipe.recv()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()
        self._room.cleanup()


def learn_tests(place: Path) -> dict[str, tuple[float, Lines]]:
    """The seconds and lines of every test that runs any Lua and holds. `place`: a folder where this is kept."""
    lua = hashlib.sha256("".join(map(original, paths())).encode()).hexdigest()
    record = place / "tests.json"
    kept = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    digests = {
        str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest() + lua
        for file in (ROOT / STORIES, *sorted((ROOT / "tests/engine").rglob("test_*.py")))
        if file.stem not in _NO_TESTS_OF_BEHAVIOUR
    }
    changed = [name for name, digest in digests.items() if name not in kept or kept[name]["digest"] != digest]
    if changed:
        print(f"running {len(changed)} files of tests to see which lines of Lua they run ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="cmxm-") as room:
            found = Path(room, "found.json")
            process = _pytest(changed, {"MUTANT_MAP": str(found), "TMPDIR": room})
            try:
                process.wait(_LEARN_S)
            finally:
                process.kill()
            tests = json.loads(found.read_text(encoding="utf-8"))
        for name in changed:
            mine = {test: seen for test, seen in tests.items() if test.partition("::")[0] == name}
            kept[name] = {"digest": digests[name], "tests": mine}
        record.write_text(json.dumps(kept), encoding="utf-8")
    return {
        test: (seconds, {(path, line) for path, line in lines})
        for name in digests
        for test, (seconds, lines) in kept[name]["tests"].items()
    }


def _pytest(files: Sequence[str], more: dict[str, str], *, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.Popen(
        [*command, "--capture=no", "--tb=no", "--timeout=20", *files],
        cwd=ROOT,
        env={**{name: value for name, value in os.environ.items() if name[:7] != "PYTEST_"}, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
    )
