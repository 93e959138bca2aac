"""Finds the reasons that functions write into conditions that are not True, in their code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = "reason"
_OF_EVENTS = {"add_event", "KubernetesEvent", "has_reason", "set_true"}
"""Functions whose `reason` belongs to no condition that is False or Unknown."""


def reasons_in(folder: Path) -> set[str]:
    """Returns the texts in the Python files of a folder that are given as a `reason`: literals and constants.

    Left out is the reason of a condition that is set to True.
    """
    texts = (text for tree in _trees(folder) for node in _given(tree) for text in _texts(node))
    return {text for text in texts if text[:1].isupper()}


def given_texts(functions: set[str], folders: Iterable[Path]) -> set[str]:
    """Returns the texts, literals and constants, that calls of these functions have as their first argument."""
    calls = (
        node for folder in folders for tree in _trees(folder) for node in ast.walk(tree) if _called(node) in functions
    )
    return {text for call in calls if isinstance(call, ast.Call) and call.args for text in _texts(call.args[0])}


def _called(node: ast.AST) -> str:
    """Returns the name of the function that a node calls; empty if it calls none."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else str(getattr(function, "id", ""))


def _trees(folder: Path) -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))]


def _given(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the arguments of parameters and fields with the name `reason`, and what is assigned to that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _called(node)
            is_true = any(isinstance(each, ast.Constant) and each.value == "True" for each in node.args)
            for position in () if is_true or name in _OF_EVENTS else _POSITIONS.get(name, ()):
                yield from node.args[position : position + 1]
            yield from (keyword.value for keyword in node.keywords if keyword.arg == _NAME)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(target, "id", "") == _NAME for target in targets):
                yield node.value


def _texts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from _texts(body)
            yield from _texts(other)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield from _CONSTANTS.get(name, ())


def signatures(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Yields functions, and classes with fields, each with the names of its positional parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            yield node.name, names[1:] if names[:1] == ["self"] else names
        elif isinstance(node, ast.ClassDef):
            targets = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            yield node.name, [target.id for target in targets if isinstance(target, ast.Name)]


_POSITIONS: dict[str, set[int]] = {}
_CONSTANTS: dict[str, set[str]] = {}
for _tree in (tree for folder in ("functions", "shared") for tree in _trees(ROOT / folder)):
    for _function, _parameters in signatures(_tree):
        if _NAME in _parameters:
            _POSITIONS.setdefault(_function, set()).add(_parameters.index(_NAME))
    for _node in _tree.body:
        match _node:
            case ast.Assign(targets=[ast.Name(id=_constant)], value=ast.Constant(value=str(_text))):
                _CONSTANTS.setdefault(_constant, set()).add(_text)
