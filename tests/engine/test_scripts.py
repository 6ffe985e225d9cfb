"""The loader refuses what a reader of a Lua file could not rely on."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemojex.engine.errors import ScriptDefect
from codemojex.engine.scripts import ENGINE, EffectBody, Library
from codemojex.engine.transport.connector import Connector

HEADER = "--- {name}: does a thing\n--- Keys: k\n--- Args: none\n--- Returns: 1\n--- Refuses: nothing\n"


class Package:
    """A package of Lua files made for one test."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root / name
        for folder in ("lua", "lua/include", "lua/effect"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "__init__.py").write_text("")
        self.library = Library(name)

    def write(self, path: str, text: str) -> None:
        (self.root / "lua" / f"{path}.lua").write_text(text)

    def command(self, name: str, body: str, *header: str) -> None:
        self.write(name, HEADER.format(name=name.rpartition("/")[2]) + "".join(f"--- {h}\n" for h in header) + body)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    name = "lua_of_" + hashlib.sha1(str(tmp_path).encode()).hexdigest()[:12]
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Package(tmp_path, name)
    sys.modules.pop(name, None)


def test_a_script_knows_its_text_its_digest_and_its_header(package: Package) -> None:
    package.command("thing", "return 1\n")
    script = package.library.script("thing")
    assert script.sha == hashlib.sha1(script.source.encode()).hexdigest()
    assert (script.summary, script.keys, script.refuses) == ("does a thing", "k", "nothing")
    assert script.source.strip() == "return 1"
    assert package.library.names() == ["thing"]


@pytest.mark.parametrize("missing", ["Keys", "Args", "Returns", "Refuses"])
def test_a_header_without_a_field_is_refused_and_the_field_named(package: Package, missing: str) -> None:
    text = "".join(line for line in HEADER.format(name="thing").splitlines(True) if missing not in line)
    package.write("thing", text + "return 1\n")
    with pytest.raises(ScriptDefect, match=missing):
        package.library.script("thing")


def test_a_header_of_another_name_an_empty_file_and_a_missing_one_are_refused(package: Package) -> None:
    package.write("thing", HEADER.format(name="other") + "return 1\n")
    package.write("empty", "")
    package.write("bare", "return 1\n")
    for name in ("thing", "empty", "bare", "absent"):
        with pytest.raises(ScriptDefect, match=name):
            package.library.script(name)


def test_fragments_are_expanded_once_and_in_the_order_of_need(package: Package) -> None:
    package.command("include/one", "local one = 1\n")
    package.command("include/two", "local two = one + 1\n", "Include: one")
    package.command("thing", "return one + two\n", "Include: two, one")
    source = package.library.script("thing").source
    assert source.count("local one") == 1
    assert source.index("local one") < source.index("local two") < source.index("return")


def test_an_unknown_fragment_is_refused(package: Package) -> None:
    package.command("thing", "return 1\n", "Include: nowhere")
    with pytest.raises(ScriptDefect, match="nowhere"):
        package.library.script("thing")


def test_another_package_may_include_a_fragment_of_the_engine(package: Package) -> None:
    package.command("thing", "return mint_event(KEYS[1], 1008)\n", "Include: mint_event")
    assert "local function mint_event" in package.library.script("thing").source


def test_effects_are_spliced_into_a_script_that_takes_them_and_only_there(package: Package) -> None:
    package.command("takes", "--- Effects\nreturn effects.add(KEYS, ARGV)\n")
    package.command("other", "return 1\n")
    package.command("effect/add", "return KEYS[1] + ARGV[1]\n")
    body = package.library.body("add")
    assert "effects['add'] = function(KEYS, ARGV)" in package.library.script("takes", [body]).source
    with pytest.raises(ScriptDefect, match="takes no effects"):
        package.library.script("other", [body])
    with pytest.raises(ScriptDefect, match="not valid"):
        EffectBody("Bad name", "return 1")


async def test_every_script_of_the_engine_loads_and_the_server_agrees_on_its_digest(valkey_url: str) -> None:
    bus = await Connector.connect(valkey_url)
    try:
        for name in ENGINE.names():
            await bus.teach(ENGINE.script(name))
    finally:
        await bus.close()
