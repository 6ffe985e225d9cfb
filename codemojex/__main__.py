"""`codemojex` and `python -m codemojex` begin here, so that Ctrl-C during the slow imports is no traceback."""

import gc
import sys


def main() -> None:
    """Run the command line."""
    try:
        from codemojex.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.freeze()  # the process ends: to look for garbage among all that was imported would take two seconds more


if __name__ == "__main__":
    main()
