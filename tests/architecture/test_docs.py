"""The documentation names what there is, and names nothing that there is not."""

from __future__ import annotations

import ast
import re

import pytest

from codemojex.settings import Settings, variable
from tests.architecture.sources import ROOT, repository_files, sources

_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(#[^)\s]*)?\)")


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):.*## ", page("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_stands_in_the_reference_with_its_description(name: str) -> None:
    description = Settings.model_fields[name].description or ""
    row = f"| `{variable(name)}` | {description} |"
    assert row in page("docs/reference/settings.md"), f"docs/reference/settings.md lacks the row:\n{row}"


def test_the_reference_names_no_setting_that_is_gone() -> None:
    known = {variable(name) for name in Settings.model_fields}
    for path in ("docs/reference/settings.md", ".env.example", "compose.yaml"):
        named = set(re.findall(r"\b(CODEMOJEX_[A-Z_]+|BOT_TOKEN)\b", page(path))) - {"CODEMOJEX_BOT_TOKEN"}
        assert not named - known, f"{path} names unknown settings: {sorted(named - known)}"


def test_the_example_environment_lists_every_setting_with_its_default() -> None:
    lines = page(".env.example").splitlines()
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else str(field.default)
        assert f"# {variable(name)}={default}" in lines, f".env.example lacks '# {variable(name)}={default}'"


def test_every_make_target_is_explained_and_in_the_reference() -> None:
    targets = make_targets()
    assert {"help", "install", "play", "check", "test", "bench", "clean", "distclean"} <= targets
    for target in targets:
        assert f"`make {target}`" in page("docs/reference/commands.md"), target


def test_the_documentation_names_no_make_target_that_is_not_there() -> None:
    known = {*make_targets(), "TARGET"}
    for path, text in sources(".md"):
        for target in re.findall(r"`make ([a-zA-Z-]+)", text):
            assert target in known, f"{path} names `make {target}`"


def cli_commands() -> dict[str, list[str]]:
    """The program's commands and their options, from the source: `{"play": ["--port", …]}`."""
    tree = ast.parse(page("codemojex/cli.py"))
    return {
        node.name: [f"--{argument.arg.replace('_', '-')}" for argument in node.args.kwonlyargs]
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and [ast.unparse(mark) for mark in node.decorator_list] == ["cli.command"]
    }


def test_every_command_and_option_of_the_program_stands_in_the_reference() -> None:
    rows = page("docs/reference/commands.md").splitlines()
    commands = cli_commands()
    assert {"play", "run", "migrate", "health", "status"} <= set(commands)
    for command, options in commands.items():
        row = next((row for row in rows if row.startswith(f"| `codemojex {command}")), "")
        assert row, f"docs/reference/commands.md lacks a row for codemojex {command}"
        missing = [option for option in options if option not in row]
        assert not missing, f"docs/reference/commands.md lacks {missing} of codemojex {command}"


def test_the_documentation_names_no_command_that_is_not_there() -> None:
    known = set(cli_commands())
    for path, text in sources(".md", ".yaml"):
        for command in re.findall(r"(?:`|bin/)codemojex ([a-z-]+)", text):
            assert command in known, f"{path} names codemojex {command}"


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in page(".ci/run")
    assert "make test" in page("README.md")
    assert "make play" in page("README.md")


def test_every_link_between_pages_leads_somewhere() -> None:
    dead = [
        f"{path}: {target}"
        for path, text in sources(".md")
        for target, _ in _LINK.findall(text)
        if "://" not in target and not (ROOT / path.parent / target).exists()
    ]
    assert not dead, "\n" + "\n".join(dead)


def test_every_page_can_be_reached_from_the_index() -> None:
    index = page("docs/README.md")
    linked = {target for target, _ in _LINK.findall(index)}
    pages = [path.relative_to("docs").as_posix() for path in repository_files() if path.parts[0] == "docs"]
    missing = [name for name in pages if name != "README.md" and name.endswith(".md") and name not in linked]
    assert not missing, f"docs/README.md does not link {', '.join(missing)}"


def test_a_decision_is_half_a_page() -> None:
    for path, text in sources(".md", under="docs/decisions/"):
        assert text.count("\n") <= 40, f"{path} is longer than half a page"


def test_every_explanation_ends_with_the_files_that_it_explains() -> None:
    for path, text in sources(".md", under="docs/explanation/"):
        last = text.rstrip().rpartition("\n")[2]
        assert last.startswith("*In the code:* "), f"{path} must end with a line '*In the code:* `file` · `file`'"
        named = re.findall(r"`([^`]+)`", last)
        assert named, f"{path} names no file"
        for name in named:
            assert (ROOT / name).exists(), f"{path} names {name}, which is not there"


def test_a_newcomers_questions_are_answered_by_the_file_that_the_page_names() -> None:
    rows = re.findall(r"^\| (.+\?) \| `([^`]+)` \| `([^`]+)` \|$", page("docs/how-to/find-your-way.md"), re.MULTILINE)
    assert len(rows) == 12
    for question, file, name in rows:
        assert name in page(file), f"{question} {file} does not hold {name!r}"
