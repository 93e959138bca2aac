"""Mutants: modules with one change in the body of a function.

A change is another comparison, a negated condition, another constant, or a statement left out. Effects and functions
that are given a client have no mutants: they have tests on a real API server. Nor has what runs when a module is
imported.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

_CLIENTS = {"Client", "Clients", "ClusterClients", "ClusterConnection"}
_OPPOSITES: dict[type[ast.AST], Callable[[], Any]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change in a module: `new` takes the place of `old` in a field of `parent`, inside the outermost `function`."""

    path: Path
    tree: ast.Module
    function: ast.FunctionDef | ast.Lambda
    parent: ast.AST
    field: str
    old: ast.AST
    new: ast.AST

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The tree has the change inside the block."""
        self._put(self.old, ast.fix_missing_locations(ast.copy_location(self.new, self.old)))
        try:
            yield
        finally:
            self._put(self.new, self.old)

    def _put(self, old: ast.AST, new: ast.AST) -> None:
        value = getattr(self.parent, self.field)
        if isinstance(value, list):
            value[next(index for index, node in enumerate(value) if node is old)] = new
        else:
            setattr(self.parent, self.field, new)

    def codes(self) -> list[tuple[CodeType, CodeType]]:
        """Returns the code objects of the module that differ, without and with the change."""
        before = compile(self.tree, str(self.path), "exec")
        with self.applied():
            return list(_differing(before, compile(self.tree, str(self.path), "exec")))

    def __str__(self) -> str:
        before = ast.unparse(self.function).splitlines()
        with self.applied():
            after = ast.unparse(self.function).splitlines()
        changed = [f"    {line}" for line in difflib.ndiff(before, after) if line[0] in "+-"]
        return "\n".join([f"{os.path.relpath(self.path)}:{getattr(self.old, 'lineno', '?')}", *changed])


def _differing(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Returns the code objects of functions that differ, the outer ones first."""
    if before != after:
        yield before, after
    nested = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (before, after)]
    for pair in zip(*nested, strict=False):
        yield from _differing(*pair)


def mutants_of(path: Path) -> list[Mutant]:
    """Returns all mutants of a module."""
    tree = ast.parse(path.read_text())
    return [Mutant(path, tree, *change) for change in _changes(tree)]


def _changes(parent: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[Any, ...]]:
    """Returns function, parent, field, old and new node of each change below a node."""
    for field, value in ast.iter_fields(parent):
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or _is_left_out(node, parent, field):
                continue
            if function is not None:
                yield from ((function, parent, field, node, new) for new in _replacements(node, parent, field))
            begins = function is None and isinstance(node, ast.FunctionDef | ast.Lambda)
            yield from _changes(node, node if begins else function)


def _is_left_out(node: ast.AST, parent: ast.AST, field: str) -> bool:
    """Returns whether a node is an effect or is given a client, or decides nothing when its function runs."""
    if isinstance(node, ast.ClassDef):
        return any(isinstance(each, ast.FunctionDef) and each.name == "execute" for each in node.body)
    if isinstance(node, ast.FunctionDef):
        return any(isinstance(each, ast.Name) and each.id in _CLIENTS for each in ast.walk(node.args))
    is_message = isinstance(parent, ast.keyword) and parent.arg == "message"
    is_text = isinstance(node, ast.Constant) and (is_message or isinstance(parent, ast.Expr | ast.JoinedStr))
    is_declared = isinstance(node, ast.arguments | ast.Assert) or field in ("annotation", "returns", "decorator_list")
    return is_text or is_declared


def _replacements(node: ast.AST, parent: ast.AST, field: str) -> Iterator[ast.AST]:
    """Returns what to put in the place of a node."""
    negated = field in ("test", "ifs")
    match node:
        case ast.Compare(left, [op], right) if type(op) in _OPPOSITES:
            yield ast.Compare(left, [_OPPOSITES[type(op)]()], right)
            negated = negated and isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_OPPOSITES[type(op)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
            negated = False
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Constant(str(text)) if isinstance(parent, ast.Return):
            yield ast.Constant("" if text else "mutant")
        case ast.Constant(str(text)) if text and " " not in text:
            yield ast.Constant(f"mutant-{text}")
        case ast.Return(value) if value and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Constant()):
            pass
        case ast.Expr() | ast.Raise() | ast.If() | ast.AugAssign() | ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.If(ast.Constant(False), [node], [])  # a closure keeps its variables
        case ast.Continue() | ast.Break():
            yield ast.Pass()
    if negated:
        yield ast.UnaryOp(ast.Not(), node)
