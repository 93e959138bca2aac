"""kubectl's loading rules: which kubeconfig files are read, how they are merged, and which context is used.

If several files have a context, cluster or user of one name, the first file provides the whole entry. The first file
that sets a current context decides. Files that do not exist are skipped. A path is relative to the folder of its file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared import bounded_yaml

from .resources import Object, dig

_SECTIONS = (("contexts", "context"), ("clusters", "cluster"), ("users", "user"))
_FILES = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
"""Fields that hold a path."""


class KubeconfigError(Exception):
    """A kubeconfig cannot be used; the message names the fault and never quotes credentials."""


@dataclass(frozen=True)
class Kubeconfig:
    """The merged kubeconfig files, and the selected context with its namespace and server."""

    files: tuple[Path, ...]
    document: Object
    context: str
    namespace: str
    """Empty if the context has none."""
    server: str

    def __str__(self) -> str:
        return f"context {self.context} of {os.pathsep.join(map(str, self.files))} ({self.server})"


def default_files() -> list[Path]:
    """Returns the files that `$KUBECONFIG` lists, else `~/.kube/config`."""
    listed = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return listed or [Path.home() / ".kube" / "config"]


def load(files: Sequence[Path], context: str = "") -> Kubeconfig:
    """Merges the files and selects `context`, or else their current context. Raises `KubeconfigError`."""
    read = {file: _read(file) for file in dict.fromkeys(files)}
    found = {file: document for file, document in read.items() if document is not None}
    if not found:
        raise KubeconfigError(f"there is no kubeconfig {os.pathsep.join(map(str, files))}")
    document, present = _merged(list(found.values())), tuple(found)
    where = os.pathsep.join(map(str, present))
    names = [str(entry["name"]) for entry in document["contexts"]]
    existing = f"; the contexts are {', '.join(names)}" if names else ""
    selected = context or document["current-context"]
    if not selected:
        raise KubeconfigError(f"{where}: there is no current context{existing}")
    if selected not in names:
        raise KubeconfigError(f"{where}: there is no context {selected!r}{existing}")
    fields = entry(document, "contexts", selected, "context")
    try:
        server = entry(document, "clusters", fields.get("cluster"), "cluster").get("server", "")
    except KubeconfigError as error:
        raise KubeconfigError(f"{where}: {error}") from error
    return Kubeconfig(present, document, str(selected), str(fields.get("namespace") or ""), str(server))


def parse(content: bytes, *, untyped: bool = False, most: int = bounded_yaml.MAX_COMPOSED) -> Object:
    """Parses a kubeconfig of at most `most` values; with `untyped`, every scalar is a string.

    Raises `KubeconfigError`, or `MemoryBusy`.
    """
    try:
        document = bounded_yaml.load(content, untyped=untyped, most=most)
    except bounded_yaml.YAMLError:  # its message would quote the content
        raise KubeconfigError("kubeconfig is not valid YAML") from None
    if not isinstance(document, dict):
        raise KubeconfigError("kubeconfig is not a mapping")
    return document


def entry(document: Mapping[str, Any], section: str, name: Any, field: str) -> Mapping[str, Any]:
    """Returns `field` of the entry `name` in a section of a kubeconfig. Raises `KubeconfigError` if there is none."""
    entries = document.get(section) or []
    for candidate in entries if isinstance(entries, list) else ():
        if isinstance(candidate, dict) and candidate.get("name") == name:
            value = candidate.get(field)
            if isinstance(value, dict):
                return value
    raise KubeconfigError(f"kubeconfig has no {field} named {str(name)[:100]!r}")


def _read(file: Path) -> Object | None:
    """Reads one file and makes its paths absolute; returns None if it does not exist. An empty file is valid."""
    try:
        content = file.read_bytes()
        document = parse(content) if content.strip() else {}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KubeconfigError(f"{file}: {error.strerror}") from error
    except KubeconfigError as error:
        raise KubeconfigError(f"{file}: {error}") from error
    folder = file.absolute().parent
    found: Object = {"current-context": document.get("current-context") or ""}
    for section, field in _SECTIONS:
        entries = document.get(section) or []
        if not isinstance(entries, list) or not all(_is_entry(entry, field) for entry in entries):
            raise KubeconfigError(f"{file}: {section} is not a list of entries with a name and a {field}")
        found[section] = [
            {"name": one["name"], field: _absolute(one.get(field) or {}, field, folder)} for one in entries
        ]
    return found


def _is_entry(entry: Any, field: str) -> bool:
    named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
    return named and isinstance(entry.get(field), dict | None)


def _absolute(value: Object, field: str, folder: Path) -> Object:
    paths = {
        name: str(folder / value[name])
        for name in _FILES.get(field, ())
        if isinstance(value.get(name), str) and value[name]
    }
    found: Object = {**value, **paths}
    command = str(dig(value, "exec.command", ""))
    if os.sep in command:  # a bare name is looked up in the PATH
        found["exec"] = {**value["exec"], "command": str(folder / command)}
    return found


def _merged(documents: Sequence[Object]) -> Object:
    """Merges several kubeconfigs by the rules above."""
    current = next(filter(None, (document["current-context"] for document in documents)), "")
    merged: Object = {"apiVersion": "v1", "kind": "Config", "current-context": current}
    for section, _ in _SECTIONS:
        first: Object = {}
        for document in documents:
            for entry in document[section]:
                first.setdefault(entry["name"], entry)
        merged[section] = list(first.values())
    return merged
