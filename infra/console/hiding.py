"""Hides what can be a secret in objects that a page shows as YAML, and in their changes.

Objects of users can contain passwords and keys in any field: in variables of a topology, in annotations, in files for
nodes. Fields are hidden by their names, and texts by their form. Rather too much is hidden than too little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.applier.diff import ABSENT, REDACTED, FieldDiff
from shared.kube import Object

HIDDEN = "(hidden)"
_NAME = re.compile(
    r"passw|passphrase|\bpass\b|pwd|secret|token|credential|private|kubeconfig|authorization|\bauth\b|content"
    r"|(?:api|access|account|encryption|signing|ssh|sas)[_-]?key",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?:Ref|Refs|Name|Namespace|Names)$")
"""The names of fields that name objects."""
_TEXT = re.compile(r"-----BEGIN |://[^/@\s]{1,2000}@|\beyJ[A-Za-z0-9_-]{10}|\b(?:AKIA|ghp_|github_pat_|glpat-)")
"""Marks of PEM, of URLs with a password, and of widespread forms of tokens."""
_DROPPED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST = 4_000
"""Characters: longer texts are documents in a document, and may contain anything."""

_DEEPEST = 50
"""Levels: deeper parts are hidden, because an object can be nested deeper than Python's stack."""


def hide(obj: Mapping[str, Any]) -> Object:
    """Returns an object without secrets, managed fields and the copy of it that kubectl keeps in an annotation."""
    hidden: Object = _hide(obj)
    metadata = hidden.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        if isinstance(annotations := metadata.get("annotations"), dict):
            annotations.pop(_DROPPED_ANNOTATION, None)
    return hidden


def hide_difference(field: FieldDiff) -> FieldDiff:
    """Returns a difference whose values are hidden where `hide` would hide them."""
    *parents, name = field.path.split(".")
    if name == "value" and parents:  # of an entry such as env[name="PASSWORD"]
        name = parents[-1]
    old, new = (
        value if value is ABSENT else REDACTED if _is_secret(name) else _hide(value) for value in (field.old, field.new)
    )
    return FieldDiff(field.path, old, new)


def _hide(value: Any, name: str = "", depth: int = 0) -> Any:
    if isinstance(value, bool) or value in (None, "", [], {}):
        return value
    if _is_secret(name) or depth > _DEEPEST:
        return HIDDEN
    if isinstance(value, Mapping):
        # A list of variables has entries such as {name: registryPassword, value: ...}.
        named = str(value.get("name") or value.get("key") or "")
        return {
            str(field): _hide(each, named if field == "value" and named else str(field), depth + 1)
            for field, each in value.items()
        }
    if isinstance(value, list):
        return [_hide(each, "", depth + 1) for each in value]
    return HIDDEN if isinstance(value, str) and (len(value) > _LONGEST or _TEXT.search(value)) else value


def _is_secret(name: str) -> bool:
    return bool(_NAME.search(name)) and not _REFERENCE.search(name)
