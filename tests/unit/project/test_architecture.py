"""ARCHITECTURE.md names files that exist, and the layers of `shared` that import-linter checks, in their order."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

PROJECT = Path(__file__).parents[3]
TEXT = (PROJECT / "ARCHITECTURE.md").read_text()


def layers_of_shared() -> dict[str, int]:
    """Returns the number of each layer, by the name of its module; the highest layer has number 0."""
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"].startswith("shared:"))
    return {
        name.strip().removeprefix("shared."): number for number, row in enumerate(layers) for name in row.split("|")
    }


def test_named_files_exist() -> None:
    named = re.findall(r"`((?:functions|shared|events|infra|tests|docs)/[\w/.]*)`", TEXT)
    assert len(named) > 10
    assert [name for name in named if not (PROJECT / name).exists()] == []


def test_table_has_every_layer_of_shared_in_order() -> None:
    _, table = TEXT.split("| layer of `shared`, top first |")
    names = re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.split("\n\n")[0].splitlines()[2:]))
    layers = layers_of_shared()
    assert sorted(names) == sorted(layers)
    assert [pair for pair in pairwise(names) if layers[pair[0]] > layers[pair[1]]] == []


def test_every_module_of_shared_has_a_layer() -> None:
    found = {path.stem for path in (PROJECT / "shared").iterdir() if not path.name.startswith(("__", "py.typed"))}
    assert found == set(layers_of_shared())
