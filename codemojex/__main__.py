"""`codemojex` and `python -m codemojex` begin here, so that Ctrl-C during the slow imports is no traceback."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from codemojex.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
