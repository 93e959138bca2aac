"""Objects as text that kubectl reads, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from shared.charts import yamls
from shared.kube import Object

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """Quotes also what only Kubernetes' reader takes for a boolean or a number, such as `y` and `1e3`."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:0o[0-7_]+|(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?)$"),
    list("-+.0123456789"),
)


def dump(objects: Iterable[Object]) -> str:
    """YAML, a document each, fields in the order that they have."""
    return str(yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False))


def load(path: Path) -> list[Object]:
    """The objects of a file. Raises ValueError that names it."""
    try:
        return [document for document in yamls.load_all(text(path)) if isinstance(document, dict)]
    except yamls.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from error


def text(path: Path) -> str:
    """What is in a file. Raises ValueError that names it."""
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text") from error
