"""No text from outside takes time that grows faster than its length."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from shared.addons.owner import OWNER
from shared.applier.apply import _field_conflicts
from shared.applier.fields import MAX_PATHS, resolve, without
from shared.applier.policy import Policy, PolicyError
from shared.components.durations import whole_seconds
from shared.components.errors import ComponentsError
from shared.components.substitute import substitute
from shared.kube import Conflict, Object
from shared.redaction import redact
from tests.support.growth import PATTERN_METHODS, slow_text

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "functions", "events", "infra")


class Found(NamedTuple):
    """A regular expression in the code, and the methods that are called with it."""

    place: str
    pattern: str | bytes
    flags: int
    methods: tuple[str, ...]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield file, ast.parse(file.read_text())


def re_calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in ("compile", *PATTERN_METHODS)
        ):
            yield node


def methods_of(tree: ast.Module, name: str) -> set[str]:
    """Returns the methods of a pattern that its module calls by the name of the pattern."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in PATTERN_METHODS
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def evaluated(node: ast.expr, names: Mapping[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), dict(names))


def module_of(file: Path) -> ModuleType:
    return importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def patterns() -> Iterator[Found]:
    """Yields each regular expression of the code. One that is built of names is evaluated in its module."""
    for file, tree in modules():
        names = {id(value): targets for value, targets in assignments(tree)}
        for call in re_calls(tree):
            assert isinstance(call.func, ast.Attribute)
            place = f"{file.relative_to(ROOT)}:{call.lineno}"
            pattern, *rest = call.args
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            flags = given.get("flags") or (rest[0] if call.func.attr == "compile" and rest else None)
            try:
                text = ast.literal_eval(pattern)
                scope: Mapping[str, Any] = {"re": re}
            except ValueError:
                scope = vars(module_of(file))
                try:
                    text = evaluated(pattern, scope)
                except (NameError, AttributeError):
                    yield Found(place, "", 0, ())
                    continue
            if isinstance(text, re.Pattern):  # `re.sub(_COMPILED, ...)`
                text = text.pattern
            called = {call.func.attr} - {"compile"}
            for name in names.get(id(call), ()):
                called |= methods_of(tree, name)
            used = tuple(sorted(called)) or ("match", "fullmatch", "search")
            yield Found(place, text, int(evaluated(flags, scope)) if flags else 0, used)


def assignments(tree: ast.Module) -> Iterator[tuple[ast.expr, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield node.value, [target.id for target in targets if isinstance(target, ast.Name)]


BUILT = {
    "functions/cluster_stack_release/kinds.py": "the name of an object, as it is, between bounds of words",
    "infra/local/kind/errors.py": "a table of patterns, for the output of kind",
    "infra/local_control_plane/modules.py": "the name of a module, for our own go.mod",
    "infra/node/knative.py": "the name of a module, for files of that module",
}
"""Modules with patterns that are built of values, and what these are."""

FOUND = [found for found in patterns() if found.pattern or found.place.partition(":")[0] not in BUILT]


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_time_of_a_pattern_grows_with_its_text_only(found: Found) -> None:
    assert found.pattern, "write the pattern as a constant of the module, so that it can be tested"
    assert slow_text(found.pattern, found.flags, found.methods) == ""


def test_the_patterns_of_the_code_are_found() -> None:
    assert len(FOUND) > 100


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+$", "match"),
        (r"(a|a)*b", "match"),
        (r"\s+$", "search"),
        (r"(\w*)=([^,]+)", "findall"),
        (r"\d+\.?\d+x", "fullmatch"),
        (r"updates? to .*forbidden", "search"),
        (r"begin.*end", "sub"),
    ],
)
def test_slow_patterns_are_found(pattern: str, method: str) -> None:
    assert slow_text(pattern, 0, [method]) != ""


# -- scanners without regular expressions -------------------------------------------------------------------------


def seconds(call: Callable[[], object]) -> float:
    """Returns the CPU seconds of a call."""
    began = time.thread_time()
    call()
    return time.thread_time() - began


LONG = 250_000
ATTACKS: list[tuple[str, Callable[[], object]]] = [
    ("path of letters", lambda: resolve({"a": [{}]}, f"a[{'x' * LONG}]")),
    ("path of quotes", lambda: resolve({"a": [{}]}, "a[" + '="' * LONG)),
    ("path of dots", lambda: resolve({"a": [{}]}, "." * LONG)),
    ("path through items", lambda: resolve({"a": [{}] * LONG}, f"a[{'x' * 1000}=1]")),
    ("duration", lambda: refused(whole_seconds, "9999s" * 12 + "!")),
    ("duration of digits", lambda: refused(whole_seconds, "9" * LONG)),
    ("secret cut off by marks", lambda: redact("ab " * 10_000 + "…" + "ab " * 10_000, ["ab " * 60_000 + "c"])),
    ("secret and many marks", lambda: redact("ab…" * 20_000, ["ab " * 20_000 + "c"])),
    ("globs", lambda: refused(substitute, "${V#" + "*a" * 1000 + "b}", {"V": "a" * 16_000})),
    ("field of a conflict", lambda: without(OBJECT, f".list[{'x' * LONG}]")),
]
OBJECT: Object = {"list": [{"name": "a"}]}


def refused(call: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(ValueError if call is whole_seconds else ComponentsError):
        call(*arguments)


@pytest.mark.parametrize("attack", [attack for _, attack in ATTACKS], ids=[name for name, _ in ATTACKS])
def test_scanners_read_a_text_once(attack: Callable[[], object]) -> None:
    """The bound is generous: the slowest takes a tenth of it, and needed more than ten times as much, or hours."""
    assert seconds(attack) < 5


def test_annotation_that_names_too_many_or_too_long_paths_is_refused() -> None:
    for paths in ("a" * LONG, "x=," * LONG, ",".join(["spec.replicas"] * (MAX_PATHS + 1))):
        annotated: Object = {"metadata": {"annotations": {"capi-functions.dev/drift-ignore": paths}}}
        with pytest.raises(PolicyError, match=r"drift-ignore.* more than 10") as raised:
            Policy.of(OWNER, annotated)
        assert len(str(raised.value)) < 300


def test_conflicts_that_a_server_reports_are_capped() -> None:
    cause = {"reason": "FieldManagerConflict", "message": f'conflict with "{"m" * LONG}"', "field": f".a[{'x' * LONG}]"}
    error = Conflict("conflict", status=409, body={"details": {"causes": [cause] * 5000}})
    found = _field_conflicts(error)
    assert len(found) == MAX_PATHS
    assert all(len(str(conflict)) < 2 * 1024 for conflict in found)
    assert resolve({"a": [{}]}, found[0].field) is None
