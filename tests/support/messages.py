"""Collects the messages that can reach a user: errors, messages of conditions and events, and wrong usage.

`python -m tests.support.messages` writes them to `tests/support/messages.txt`, with `--check` it compares them. So a
review sees each new message: does it say what is wrong with which object, why, and what to do?
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .condition_reasons import signatures

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "support" / "messages.txt"
FOLDERS = ("functions", "shared", "events", "infra")
_LEFT_OUT = ("infra/node", "infra/generate", "infra/publishing", "infra/site", "infra/image", "infra/audit.py")
"""Tools of this project's own development."""
_BUGS = {"AssertionError", "NotImplementedError", "RuntimeError", "SystemExit", "TypeError"}
"""Exceptions that no user sees, except as a bug."""
_PARAMETERS = {"message", "error", "why", "problem", "hint"}
"""Names of parameters and variables whose text becomes a message, or a part of one."""


def collect() -> str:
    """Returns the messages of all files, each below the path of its file."""
    parsed = {path: ast.parse(path.read_text()) for path in _files()}
    parameters = {name: names for tree in parsed.values() for name, names in signatures(tree)}
    parts = []
    for path, tree in parsed.items():
        texts = sorted(
            {" ".join(text.split()) for node in _given(tree, parameters) for text in _texts(node) if " " in text}
        )
        if texts:
            parts.append("\n".join([str(path.relative_to(ROOT)), *(f"  {text}" for text in texts)]))
    return "\n".join(parts) + "\n"


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(_LEFT_OUT):
                yield path


def _given(tree: ast.AST, parameters: Mapping[str, Sequence[str]]) -> Iterator[ast.AST]:
    """Yields what is raised, what parameters for messages get, and what is assigned to a name for messages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if _name(node.exc.func) not in _BUGS:
                yield from node.exc.args
        elif isinstance(node, ast.Call):
            names = parameters.get(_name(node.func), [])
            yield from (given for given, name in zip(node.args, names, strict=False) if name in _PARAMETERS)
            yield from (keyword.value for keyword in node.keywords if keyword.arg in _PARAMETERS)
        elif isinstance(node, ast.Assign) and any(_name(target) in _PARAMETERS for target in node.targets):
            yield node.value


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _texts(node: ast.AST) -> Iterator[str]:
    """Yields the texts of an expression; values in a text become `{…}` with their expression."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(_part(part) for part in parts)
        case ast.IfExp(body=body, orelse=other):
            yield from _texts(body)
            yield from _texts(other)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _texts(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _texts(left)
            yield from _texts(right)


def _part(part: ast.AST) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
    return ""


if __name__ == "__main__":
    if "--check" not in sys.argv:
        FILE.write_text(collect())
    elif FILE.read_text() != collect():
        sys.exit("messages have changed: reread them, and run `python -m tests.support.messages`")
