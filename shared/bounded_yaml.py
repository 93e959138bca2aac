"""YAML read the way Kubernetes' own tools read it (sigs.k8s.io/yaml), so that a chart means here what it means to Helm.

Python's usual reader differs where it hurts: it makes dates of version strings and base-60 numbers of
`10:30`, does not know `1e3` as a number or `0o644` as an octal, and keeps keys that are no strings. And it has no
bounds: all YAML that comes from outside is read here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

YAMLError = yaml.YAMLError

MAX_NODES: Final = 1_000_000
"""Of all documents of a text, aliases followed: a few lines of nested aliases can stand for billions of values."""

MAX_NESTING: Final = 200
"""Levels of one document; libyaml's composer recurses in C, where too deep means the end of the process."""

MAX_MERGED: Final = 100_000
"""Keys of one mapping before duplicates go, since `<<` can multiply them."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TextsBase: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_INT = re.compile(
    r"^[-+]?(?:0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[0-7_]*|[1-9][0-9_]*)$",
)
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


class _Bounded:
    """For a loader: ends at a document that is nested too deep."""

    _level = 0

    def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:
        self._level += 1
        if self._level > MAX_NESTING:
            raise YAMLError(f"the document is nested more than {MAX_NESTING} levels deep")
        super().descend_resolver(parent, index)  # type: ignore[misc]

    def ascend_resolver(self) -> None:
        self._level -= 1
        super().ascend_resolver()  # type: ignore[misc]


class _Texts(_Bounded, _TextsBase):  # type: ignore[misc]
    """Scalars stay the text that was written (1.30 is not 1.3); there are texts, lists and mappings only."""


class _Loader(_Bounded, _Base):  # type: ignore[misc]
    """Go's rules for plain scalars in place of PyYAML's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own interface

    _keys = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # which comes back here for each mapping that is merged
        if len(node.value) > MAX_MERGED:
            raise YAMLError(f"a mapping has more than {MAX_MERGED} keys, merged ones included")
        self._keys += len(node.value)
        if self._keys > MAX_NODES:
            raise YAMLError(f"the mappings have more than {MAX_NODES} keys, merged ones included")

    def integer(self, node: yaml.ScalarNode) -> int | float:
        text = str(node.value).replace("_", "")
        sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            digits = "0o" + digits
        number = int(sign + digits, 0)
        return number if -(2**63) <= number < 2**64 else _plain(float(number))

    def number(self, node: yaml.ScalarNode) -> int | float | str:
        text = str(node.value).replace("_", "").lower()
        if text.endswith((".inf", ".nan")):
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} has no place in JSON", node.start_mark)
        number = float(text)
        return _plain(number) if math.isfinite(number) else str(node.value)

    def boolean(self, node: yaml.ScalarNode) -> bool:
        return node.value in _TRUE

    def text(self, node: yaml.ScalarNode) -> str:
        return str(node.value)


_STARTS = "-+.0123456789"
for _tag, _pattern, _first in (
    ("bool", re.compile(f"^(?:{'|'.join(_TRUE + _FALSE)})$"), "yYnNtTfFoO"),
    ("int", _INT, _STARTS),
    ("float", _FLOAT, _STARTS),
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("merge", re.compile(r"^(?:<<)$"), "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:bool", _Loader.boolean)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.text)


def load_all(text: str | bytes, *, texts: bool = False) -> Iterator[Any]:
    """The documents of a stream as JSON-like values; mappings have string keys and share no parts.

    With `texts` all scalars stay the text that was written. Raises YAMLError, with the line, when iteration comes to
    the document that is wrong.
    """
    copy = _Json()
    try:
        for document in yaml.load_all(text, Loader=_Texts if texts else _Loader):
            yield copy.of(document)
    except RecursionError as error:
        raise YAMLError("the document contains itself") from error
    except (ValueError, OverflowError) as error:  # a number that only its tag claims to be one, or a very long one
        raise YAMLError(str(error)) from error


def load(text: str | bytes, *, texts: bool = False) -> Any:
    """The only document of a text, None if it is empty. Raises YAMLError, also for a second document."""
    documents = [document for document in load_all(text, texts=texts) if document is not None]
    if len(documents) > 1:
        raise YAMLError(f"expected one YAML document, found {len(documents)}")
    return documents[0] if documents else None


def _plain(number: float) -> int | float:
    """As JSON carries it: whole floats come back as integers, as they do from Go's encoder."""
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


class _Json:
    """Copies the documents of one text into what JSON can carry."""

    def __init__(self) -> None:
        self._nodes = 0

    def of(self, value: Any) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise YAMLError(f"the text has more than {MAX_NODES} values")
        if isinstance(value, dict):
            return {_key(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise YAMLError(f"the document holds a {type(value).__name__}, which JSON cannot carry")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise YAMLError(f"a mapping has the key {key!r}, which JSON cannot carry")
