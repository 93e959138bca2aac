"""kubectl's loading rules: which kubeconfig files count, what they are together, and which context is used.

Of several files the first that names a context, cluster or user has it, whole; so does the first that sets a current
context. A file of the list that is not there is passed over, and a relative path in a file starts at its folder.
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
    """A kubeconfig that cannot be used; the message says what is wrong with it and never quotes its content."""


@dataclass(frozen=True)
class Kubeconfig:
    """The files that count as one document, and what the context in use names."""

    files: tuple[Path, ...]
    document: Object
    context: str
    namespace: str
    """Empty where the context has none."""
    server: str

    def __str__(self) -> str:
        return f"context {self.context} of {os.pathsep.join(map(str, self.files))} ({self.server})"


def default_files() -> list[Path]:
    """Those that `$KUBECONFIG` lists, else `~/.kube/config`."""
    listed = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return listed or [Path.home() / ".kube" / "config"]


def load(files: Sequence[Path], context: str = "") -> Kubeconfig:
    """The files together, with `context` in use, or their current one. Raises `KubeconfigError`."""
    read = {file: _read(file) for file in dict.fromkeys(files)}
    found = {file: document for file, document in read.items() if document is not None}
    if not found:
        raise KubeconfigError(f"there is no kubeconfig {os.pathsep.join(map(str, files))}")
    document, present = _merged(list(found.values())), tuple(found)
    where = os.pathsep.join(map(str, present))
    names = [str(entry["name"]) for entry in document["contexts"]]
    there = f"; there is {', '.join(names)}" if names else ""
    used = context or document["current-context"]
    if not used:
        raise KubeconfigError(f"{where}: there is no current context{there}")
    if used not in names:
        raise KubeconfigError(f"{where}: there is no context {used!r}{there}")
    chosen = named(document, "contexts", used, "context")
    try:
        server = named(document, "clusters", chosen.get("cluster"), "cluster").get("server", "")
    except KubeconfigError as error:
        raise KubeconfigError(f"{where}: {error}") from error
    return Kubeconfig(present, document, str(used), str(chosen.get("namespace") or ""), str(server))


def parse(content: bytes, *, texts: bool = False) -> Object:
    """A kubeconfig's document, with `texts` without numbers and the like. Raises `KubeconfigError`."""
    try:
        document = bounded_yaml.load(content, texts=texts)
    except bounded_yaml.YAMLError:  # whose words would quote it
        raise KubeconfigError("kubeconfig is not valid YAML") from None
    if not isinstance(document, dict):
        raise KubeconfigError("kubeconfig is not a mapping")
    return document


def named(document: Mapping[str, Any], section: str, name: Any, field: str) -> Mapping[str, Any]:
    """What an entry of a section holds. Raises `KubeconfigError` if there is none of this name."""
    entries = document.get(section) or []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(field)
            if isinstance(value, dict):
                return value
    raise KubeconfigError(f"kubeconfig has no {field} named {str(name)[:100]!r}")


def _read(file: Path) -> Object | None:
    """One file, its paths made absolute; an empty one is a kubeconfig with nothing in it. None if it is not there."""
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
            raise KubeconfigError(f"{file}: {section} is no list of entries that each have a name and a {field}")
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
    if os.sep in command:  # any other is looked for in the PATH
        found["exec"] = {**value["exec"], "command": str(folder / command)}
    return found


def _merged(documents: Sequence[Object]) -> Object:
    current = next(filter(None, (document["current-context"] for document in documents)), "")
    merged: Object = {"apiVersion": "v1", "kind": "Config", "current-context": current}
    for section, _ in _SECTIONS:
        first: Object = {}
        for document in documents:
            for entry in document[section]:
                first.setdefault(entry["name"], entry)
        merged[section] = list(first.values())
    return merged
