"""The options of `up` that belong to its folder; a missing option has its value from the last start.

The objects in the folder depend on the releases and the profiles of the last start. With other options, a second start
would not be a restart of the same run.
"""

from __future__ import annotations

import json
from pathlib import Path

from infra.local_control_plane import files

from .failure import Failure

FILE = "options.json"


def recall(directory: Path, given: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns all options, and the names of those that are taken from the last start.

    Args:
        directory: The folder of the run, which may not exist.
        given: The options by name, "" for an option that is not given.

    Raises:
        Failure: The file of the last start cannot be read.
    """
    last = _read(directory / FILE)
    recalled = [name for name, value in given.items() if not value and last.get(name)]
    return {**given, **{name: last[name] for name in recalled}}, recalled


def remember(directory: Path, options: dict[str, str]) -> None:
    """Writes the options for the next start."""
    directory.mkdir(parents=True, exist_ok=True)
    files.write(directory / FILE, json.dumps(options, indent=2) + "\n")


def _read(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"the options of the last start cannot be read from {file}: {error}; delete the file") from error
    options = found if isinstance(found, dict) else {}
    return {str(name): value for name, value in options.items() if isinstance(value, str)}
