"""Reads files of objects as kubectl does, within limits."""

from __future__ import annotations

from pathlib import Path

from shared import bounded_yaml
from shared.kube import Object


def load(path: Path) -> list[Object]:
    """Returns the objects in a file. Raises `ValueError`, which names the file, or `OSError`."""
    try:
        return [document for document in bounded_yaml.load_all(text(path)) if isinstance(document, dict)]
    except bounded_yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {_brief(error)}") from error


def text(path: Path) -> str:
    """Returns the text of a file. Raises `ValueError`, which names the file, or `OSError`."""
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text") from error


def _brief(error: bounded_yaml.YAMLError) -> str:
    """Returns the problem and its line, without the quoted lines."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}: {problem}" if problem and mark else " ".join(str(error).split())
