"""Where `capi-functions` starts: an interrupt leaves no trace, not even while the commands are still being loaded."""

import sys


def main() -> None:
    try:
        from .main import main as commands

        commands()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
