"""The values of a release: sources in the order of `spec.valuesFrom`, and `spec.values` on top."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from shared import bounded_yaml
from shared.api.resources import CONFIG_MAP, SECRET
from shared.clients import Clients
from shared.kube import Key, Object, dig

_OPAQUE: Final = "Opaque"
_KEY: Final = "values.yaml"
_SHORTEST: Final = 4
"""Shorter texts of Secrets are not redacted, because messages contain them by chance."""


class InvalidValues(ValueError):
    """A source of values is missing, is a Secret of another type, or is not a YAML mapping."""


@dataclass(frozen=True)
class Values:
    """The values of a release, and the texts among them that come from Secrets."""

    values: Object = field(default_factory=dict, repr=False)
    confidential: frozenset[str] = field(default=frozenset(), repr=False)


def read_values(clients: Clients, spec: Mapping[str, Any], namespace: str) -> Values:
    """Returns the values of a HelmReleaseProxy.

    Raises:
        InvalidValues: A source is missing, is a Secret of another type, or is not a YAML mapping; the message quotes no
            content of a Secret.
        ApiError: The API server failed.
    """
    merged: Object = {}
    confidential: set[str] = set()
    copier = bounded_yaml.Copier()
    for source in dig(spec, "valuesFrom", []):
        kind, name, key = (str(dig(source, part, "")) for part in ("kind", "name", "key"))
        text = _text(clients, kind, Key(namespace, name), key or _KEY)
        where = f"spec.valuesFrom: key {key or _KEY} of {kind} {name}"
        if text is None:
            if dig(source, "optional") is not True:
                raise InvalidValues(f"{where} does not exist")
            continue
        parsed = parse(text, where, copier, quote=kind != SECRET.kind)
        if kind == SECRET.kind:
            confidential |= texts(parsed)
        merged = merge(merged, parsed)
    values = parse(str(spec.get("values") or ""), "spec.values", copier)
    return Values(merge(merged, values), frozenset(confidential))


def _text(clients: Clients, kind: str, key: Key, entry: str) -> str | None:
    resource = SECRET if kind == SECRET.kind else CONFIG_MAP
    found = clients.management.find(resource, key)
    if resource is SECRET:
        return text_of(found, key.name, entry) if found is not None else None
    value = dig(found, ("data", entry))
    return value if isinstance(value, str) else None


def text_of(secret: Mapping[str, Any], name: str, entry: str) -> str | None:
    """Returns the text of a key of a Secret, if the key exists.

    Raises:
        InvalidValues: The Secret is not Opaque, such as the token of a ServiceAccount, or the value is not text.
    """
    type_ = secret.get("type") or _OPAQUE
    if type_ != _OPAQUE:
        raise InvalidValues(
            f"spec.valuesFrom: Secret {name} has the type {type_}: copy the values into a Secret of type {_OPAQUE}"
        )
    value = dig(secret, ("data", entry))
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError as error:
        raise InvalidValues(f"spec.valuesFrom: key {entry} of Secret {name} is not UTF-8 text") from error


def parse(text: str, where: str, copier: bounded_yaml.Copier | None = None, *, quote: bool = True) -> Object:
    """Returns the values in a text; the copier limits the values of all sources together.

    Raises `InvalidValues`, whose message names `where`, and may `quote` the text.
    """
    try:
        parsed = bounded_yaml.load(text, copier=copier)
    except bounded_yaml.YAMLError as error:
        raise InvalidValues(f"{where} is not YAML" + (f": {error}" if quote else "")) from None
    if parsed is not None and not isinstance(parsed, dict):
        raise InvalidValues(f"{where} is not a YAML mapping")
    return parsed or {}


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Object:
    """Returns the values with `above` on top, as Helm merges the files of several `--values`."""
    merged = dict(below)
    for name, value in above.items():
        present = merged.get(name)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            value = merge(present, value)
        merged[name] = value
    return merged


def texts(values: Mapping[str, Any]) -> set[str]:
    """Returns the texts among values that are long enough to be redacted."""
    return {each for each in _texts(values) if len(each) >= _SHORTEST}


def recorded_texts(config: Mapping[str, Any], values: Values) -> set[str]:
    """Returns the confidential texts of a release: of its present values, and of the recorded ones unless public."""
    public = texts(values.values) - values.confidential
    return (texts(config) - public) | values.confidential


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | int | float) and not isinstance(value, bool):  # a password may have digits only
        yield str(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(each)
