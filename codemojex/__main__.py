"""`python -m codemojex` is the command `codemojex`."""

from codemojex.cli import main

if __name__ == "__main__":
    main()
