"""Writes objects as YAML that kubectl reads, and reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from infra.release_tools.documents import load, text
from shared.kube import Object

__all__ = ["dump", "load", "text"]

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """Also quotes strings that only Kubernetes' parser reads as booleans or numbers, such as `y` and `1e3`."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_multi_representer(dict, _Dumper.represent_dict)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:0o[0-7_]+|(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?)$"),
    list("-+.0123456789"),
)


def dump(objects: Iterable[Object]) -> str:
    """Returns objects as YAML documents, with fields in their order."""
    return str(yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False))
