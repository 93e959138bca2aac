"""The entry point of `capi-functions`: no stack trace after Ctrl-C, even while the commands are still being loaded."""

import sys


def main() -> None:
    """Runs the command line. Exits with 130 after an interrupt."""
    try:
        from .main import main as commands

        commands()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
