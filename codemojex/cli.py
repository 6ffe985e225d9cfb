"""The command line: `play`, `run`, `migrate`, `health`, `status`, `limits`, `nodes`, `conformance`, `protocol`.

Exit codes: 0 well; 1 something outside is wrong (a token, a server, a database), said in one line; 2 wrong usage or a
wrong setting. The first Ctrl-C ends a command in order, the second at once. No traceback reaches a user for
anything that a user can mend.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from codemojex.settings import ROLES, SettingsError, load_settings

cli = App(
    name="codemojex",
    help="Crack a secret emoji code in Telegram; the Python reference for a Valkey-native job system.",
    version=lambda: version("codemojex"),
)

Roles = Annotated[str | None, Parameter(help=f"Roles, comma-separated: {','.join(ROLES)}.")]


@cli.command
def play(
    *,
    port: Annotated[int | None, Parameter(help="Port of the page; the next free one when it is busy.")] = None,
    data_dir: Annotated[Path | None, Parameter(help="Directory that keeps the games of this machine.")] = None,
) -> int:
    """Open the game on this machine: no account, no token, no other service.

    Every role runs in this process, over an embedded Valkey and an SQLite file, with a page that stands in for
    Telegram. A second start continues the games; a second instance beside it takes another port and directory.
    """
    return _guarded("play", port=port, data_dir=data_dir)


@cli.command
def run(
    *,
    roles: Roles = None,
    strict: Annotated[bool, Parameter(negative="", help="Refuse a server that may lose data.")] = False,
) -> int:
    """Run roles of the bot against the servers named in the settings; all roles when none are named."""
    return _guarded("run", list(ROLES) if roles is None else _chosen(roles), strict)


@cli.command
def migrate() -> int:
    """Bring the tables of the durable store up to date."""
    return _guarded("migrate")


@cli.command
def health(*, roles: Roles = None) -> int:
    """Check the server, the database and, with --roles, that these roles of this machine are alive."""
    return _guarded("health", [] if roles is None else _chosen(roles))


@cli.command
def status() -> int:
    """Show how the queues stand."""
    return _guarded("status")


@cli.command
def limits(
    *,
    reset: Annotated[
        bool, Parameter(negative="", help="Set the limits of the settings, whatever stands there.")
    ] = False,
) -> int:
    """Show the limits that stand on the server; what an operator changed by a verb stands until the settings change."""
    return _guarded("limits", reset)


@cli.command
def nodes(
    action: Literal["list", "reserve", "release"] = "list",
    numbers: Annotated[str | None, Parameter(help="A number such as 68, or a run such as 300-399.")] = None,
    /,
    *,
    note: Annotated[str, Parameter(help="Whose the numbers are, for those who list them.")] = "",
) -> int:
    """Show who mints with which node number, or keep numbers free for engines of other makes.

    A reserved number is leased to nobody; a process that has it leaves it when it next renews its lease.
    """
    return _guarded("nodes", action, numbers, note)


@cli.command
def conformance(
    *,
    url: Annotated[str | None, Parameter(help="Server to examine; an embedded one without it.")] = None,
    only: Annotated[str | None, Parameter(help="Scenarios by name, comma-separated; `flow_*` for a group.")] = None,
    flush_scripts: Annotated[
        bool, Parameter(help="Flush the server's scripts although other clients are connected.", negative="")
    ] = False,
) -> int:
    """Run the protocol's scenarios against a Valkey on queues of their own, and remove what they left.

    The keys of others are not touched. What needs a server without other clients is skipped, with the reason.
    """
    return _guarded("conformance", url, only, flush_scripts)


@cli.command
def protocol(
    action: Literal["export"],
    directory: Path,
    /,
    *,
    force: Annotated[bool, Parameter(help="Replace files in a directory that is not empty.")] = False,
) -> int:
    """Write the protocol as data files for workers in other languages: commands, keys, vectors, scenarios."""
    del action  # there is one so far
    return _guarded("export_protocol", directory, force)


def main() -> None:
    """The console command."""
    try:
        code = cli(sys.argv[1:], result_action="return_value", exit_on_error=False, print_error=True)
    except CycloptsError:
        code = 2
    except _UsageError as error:
        code = _say(2, str(error))
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


class _UsageError(Exception):
    """The command line is wrong; the message is one line."""


def _guarded(
    command: Literal["play", "run", "migrate", "health", "status", "limits", "nodes", "conformance", "export_protocol"],
    *arguments: object,
    **overrides: int | Path | None,
) -> int:
    """Run a command of `app` on the settings and on `arguments`. What can be mended is said in one line."""
    try:
        settings = load_settings(env_file=Path(".env"), **overrides)
        from codemojex import app  # the program takes a moment to import; help and refusals do not need it
    except SettingsError as error:
        return _say(2, *error.lines)
    try:
        return getattr(app, command)(settings, *arguments)
    except app.WrongUsage as error:
        return _say(2, str(error))
    except app.UserError as error:
        return _say(1, str(error))


def _chosen(roles: str) -> list[str]:
    chosen = [role.strip() for role in roles.split(",") if role.strip()]
    if not chosen:
        raise _UsageError(f"--roles names no role: choose from {', '.join(ROLES)}")
    unknown = [role for role in chosen if role not in ROLES]
    if unknown:
        raise _UsageError(f"there is no role {', '.join(unknown)}: choose from {', '.join(ROLES)}")
    return list(dict.fromkeys(chosen))


def _say(code: int, *lines: str) -> int:
    for line in lines:
        print(f"codemojex: {line}", file=sys.stderr)
    return code
