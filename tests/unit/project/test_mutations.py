"""What `make mutants` changes, and that a changed function is the one that tests call."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest

from tests.support.mutations import Mutant, mutants_of

BODIES = {
    "return a == 1": ["return a != 1", "return a == 2", "return None"],
    "return a < b and c": ["return a <= b and c", "return a < b or c", "return None"],
    "return not a": ["return a", "return None"],
    "return True": ["return False"],
    "return 'is not ready'": ["return ''"],
    "return ''": ["return 'mutant'"],
    "return a['kind']": ["return None", "return a['mutant-kind']"],
    "return a if b else c": ["return None", "return a if not b else c"],
    "if a not in b:\n    c()": [
        "if False:\n    if a not in b:\n        c()",
        "if a in b:\n    c()",
        "if a not in b:\n    if False:\n        c()",
    ],
    "'''Text.'''\nassert a\nb: Literal['x'] = c": [],
    "return f'text {a}'": ["return None"],
    "return a(message='ready')": ["return None"],
}


def changed_body(mutant: Mutant) -> str:
    with mutant.applied():
        return "\n".join(line[4:] for line in ast.unparse(mutant.function).splitlines()[1:])


@pytest.mark.parametrize("body", BODIES)
def test_a_body_has_these_mutants(body: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def rule(a, b, c):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    assert sorted(changed_body(mutant) for mutant in mutants_of(module)) == sorted(BODIES[body])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("LIMIT = 3\n", id="what runs at import"),
        pytest.param("def read(clients: Clients):\n    return clients.find(1)\n", id="given a client"),
        pytest.param("class Write:\n    def execute(self, _):\n        return 1 == 2\n", id="effect"),
        pytest.param("def rule(limit: int = 3):\n    pass\n", id="defaults"),
    ],
)
def test_this_has_no_mutants(source: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert mutants_of(tmp_path / "module.py") == []


@pytest.mark.parametrize("rule", ["def rule(n): return n > 1", "rule = lambda n: n > 1"])
def test_a_mutant_replaces_the_code_of_its_function_only(rule: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"{rule}\ndef other(n): return n > 1\n")
    names: dict[str, types.FunctionType] = {}
    exec(compile(module.read_text(), str(module), "exec"), names)
    mutant = next(each for each in mutants_of(module) if ">= 1" in str(each))
    replaced = [new for old, new in mutant.codes() if old == names["rule"].__code__]
    assert [old for old, _ in mutant.codes() if old == names["other"].__code__] == []
    names["rule"].__code__ = replaced[0]
    assert names["rule"](1) is True
    assert names["other"](1) is False
