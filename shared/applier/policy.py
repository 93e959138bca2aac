"""The policy of a sync, by annotations on the object that the objects are applied for.

The annotations are this project's own: users set them on objects of any kind, always with the same names.
docs/reference/annotations.md describes each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..kube.resources import dig
from .fields import MAX_PATH, MAX_PATHS
from .owner import Owner

PREFIX = "capi-functions.dev/"
RECREATE = PREFIX + "recreate"

_KNOWN = ("conflicts", "drift", "drift-ignore", "recreate", "prune-crds", "remove-addons", "wait", "wait-timeout")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "conflicts": ("force", "fail", "yield"),
    "drift": ("ignore", "report", "repair"),
    "recreate": ("false", "true"),
    "prune-crds": ("false", "true"),
    "remove-addons": ("false", "true"),
    "wait": ("true", "false"),
}
"""The values of annotations that have a few, by name without `PREFIX`; the first is the default."""


class PolicyError(ValueError):
    """An annotation with an unknown name or value; the message names it and the allowed values."""


@dataclass(frozen=True)
class IgnoredPath:
    """A field that may differ, in all objects or in objects of this kind, namespace and name (empty: any)."""

    path: str
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def covers(self, obj: Mapping[str, Any]) -> bool:
        """Returns whether the path is ignored in this object."""
        metadata = obj["metadata"]
        return (
            self.kind in ("", "*", obj["kind"])
            and self.namespace in ("", metadata.get("namespace") or "")
            and self.name in ("", metadata["name"])
        )


@dataclass(frozen=True)
class Policy:
    """How a sync treats conflicts, drift, immutable fields, CRDs and readiness, and for which owner it applies."""

    owner: Owner
    """The owner of the objects, which no annotation sets. Objects with its mark are adopted from other installers."""
    conflicts: str = "force"
    drift: str = "ignore"
    ignored: tuple[IgnoredPath, ...] = ()
    recreate: bool = False
    prune_crds: bool = False
    wait: bool = True
    wait_timeout: float = 600.0

    @classmethod
    def of(cls, owner: Owner, *annotated: Mapping[str, Any]) -> Policy:
        """Reads the policy from annotations; later objects take precedence.

        Raises:
            PolicyError: An annotation under our prefix is misspelled or has a value that is not allowed.
        """
        values: dict[str, str] = {}
        for obj in annotated:
            annotations = dig(obj, "metadata.annotations", {})
            _refuse_misspelled(annotations)
            values |= {name: str(annotations[PREFIX + name]) for name in _KNOWN if PREFIX + name in annotations}
        _choice(values, "remove-addons")
        return cls(
            owner,
            conflicts=_choice(values, "conflicts"),
            drift=_choice(values, "drift"),
            ignored=_ignored_paths(values.get("drift-ignore", "")),
            recreate=_choice(values, "recreate") == "true",
            prune_crds=_choice(values, "prune-crds") == "true",
            wait=_choice(values, "wait") == "true",
            wait_timeout=_seconds(values, "wait-timeout", 600.0),
        )


def _refuse_misspelled(annotations: Mapping[str, str]) -> None:
    """Raises `PolicyError` for an unknown annotation under our prefix if its name resembles a known one.

    Other unknown annotations are allowed, because other components define some.
    """
    for annotation in annotations:
        if annotation.startswith(PREFIX) and (name := annotation.removeprefix(PREFIX)) not in _KNOWN:
            for meant in get_close_matches(name, _KNOWN, 1, 0.7):
                raise PolicyError(f"annotation {annotation} is not known; did you mean {PREFIX}{meant}?")


def _choice(values: Mapping[str, str], name: str) -> str:
    choices = CHOICES[name]
    value = values.get(name, choices[0])
    if value not in choices:
        raise PolicyError(f"annotation {PREFIX}{name} is {value[:100]!r}; it must be one of {', '.join(choices)}")
    return value


def _seconds(values: Mapping[str, str], name: str, default: float) -> float:
    value = values.get(name)
    if value is None:
        return default
    if not (value.isdecimal() and len(value) < 9) or not 0 < int(value) <= 86400:
        raise PolicyError(f"annotation {PREFIX}{name} is {value[:100]!r}; it must be from 1 to 86400, in seconds")
    return float(value)


def _ignored_paths(text: str) -> tuple[IgnoredPath, ...]:
    paths = [one for one in text.split(",") if one.strip()]
    if len(paths) > MAX_PATHS:
        raise PolicyError(f"annotation {PREFIX}drift-ignore has more than {MAX_PATHS} paths: name fewer fields")
    return tuple(map(_ignored_path, paths))


def _ignored_path(text: str) -> IgnoredPath:
    if len(text) > MAX_PATH:
        shown = text.strip()[:60]
        raise PolicyError(
            f"annotation {PREFIX}drift-ignore: the path {shown!r}... has more than {MAX_PATH} characters: shorten it"
        )
    where, colon, path = text.strip().rpartition(":")
    kind, *rest = where.split("/")
    if not path or (colon and not kind) or len(rest) not in (0, 1, 2):
        raise PolicyError(
            f"annotation {PREFIX}drift-ignore: {text.strip()!r} must have the form [Kind[/namespace]/name:]path"
        )
    namespace, name = (rest[0], rest[1]) if len(rest) == 2 else ("", rest[0] if rest else "")
    return IgnoredPath(path.strip("."), kind, namespace, name)
