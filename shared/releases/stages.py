"""`clusteraddon.yaml`: the addons of a release in stages, one ordered list for each lifecycle hook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from shared import bounded_yaml

API_VERSION = "clusteraddonconfig.x-k8s.io/v1alpha1"
MAX_BYTES = 256 * 1024

FIRST, UPGRADE, UPGRADED = "AfterControlPlaneInitialized", "BeforeClusterUpgrade", "AfterClusterUpgrade"
HOOKS = (FIRST, UPGRADE, UPGRADED)

Action = Literal["apply", "delete"]
TIMEOUT = 600.0
"""Seconds that a stage may wait for a condition before it counts as stuck, unless it says otherwise."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class StagesError(Exception):
    """A clusteraddon.yaml that cannot be used; names the release and the path of what is wrong."""


@dataclass(frozen=True)
class Bound:
    """An object of the workload cluster, known as `key` to an expression."""

    key: str
    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Condition:
    """What has to be true, in CEL, over these objects."""

    expression: str
    objects: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class Stage:
    """One chart of the addon archive, by the name of its folder, and what is waited for before and after it."""

    name: str
    action: Action = "apply"
    before: Condition | None = None
    after: Condition | None = None
    timeout: float = TIMEOUT


@dataclass(frozen=True)
class Stages:
    """The stages by hook. `unknown` are the paths of keys that mean nothing, which a linter complains about."""

    hooks: Mapping[str, tuple[Stage, ...]]
    unknown: tuple[str, ...] = ()

    def of(self, hook: str) -> tuple[Stage, ...]:
        """The stages that bring a cluster to this release at `hook`.

        A file need not list all hooks: an upgrade then takes the list of a first installation, and the other way round.
        """
        order = {FIRST: (FIRST, UPGRADE), UPGRADE: (UPGRADE, FIRST), UPGRADED: (UPGRADED, UPGRADE, FIRST)}
        return next((self.hooks[name] for name in order.get(hook, HOOKS) if self.hooks.get(name)), ())

    def wanted(self, hook: str) -> tuple[Stage, ...]:
        """What the cluster is to have once `hook` is gone through: the charts that are applied.

        The list of an upgrade is the complete set; one for after the upgrade only adds to it, or takes away.
        """
        stages = {stage.name: stage for stage in self.of(UPGRADE if hook == UPGRADED else hook)}
        stages |= {stage.name: stage for stage in self.hooks.get(UPGRADED, ()) if hook == UPGRADED}
        return tuple(stage for stage in stages.values() if stage.action == "apply")


def parse(data: bytes, release: str) -> Stages:
    """Reads the file of `release` (for messages). Raises `StagesError`."""
    if len(data) > MAX_BYTES:
        raise StagesError(f"release {release}: clusteraddon.yaml is larger than {MAX_BYTES} bytes")
    try:
        document = bounded_yaml.load(data, texts=True)
    except bounded_yaml.YAMLError as error:
        words = " ".join(str(error).split())[:300]
        raise StagesError(f"release {release}: clusteraddon.yaml is not YAML: {words}") from error
    return _Reader(release).stages(document)


class _Reader:
    """Reads by path, every failure naming the path."""

    def __init__(self, release: str) -> None:
        self._release = release
        self._unknown: list[str] = []

    def stages(self, document: Any) -> Stages:
        root = self._mapping(document, "(file)", {"apiVersion", "clusterAddonVersion", "addonStages", "kind"})
        version = root.get("apiVersion", API_VERSION)
        if version != API_VERSION:
            raise self._error("apiVersion", f"want {API_VERSION}, found {version!r}")
        lists = self._mapping(root.get("addonStages"), "addonStages", set(HOOKS))
        unknown = [name for name in lists if name not in HOOKS]
        if unknown:
            raise self._error(f"addonStages.{unknown[0]}", f"no such hook; there are {', '.join(HOOKS)}")
        hooks = {name: self._list(name, entries) for name, entries in lists.items()}
        if not any(hooks.values()):
            raise self._error("addonStages", "no stages at all")
        return Stages(hooks, tuple(self._unknown))

    def _list(self, hook: str, entries: Any) -> tuple[Stage, ...]:
        path = f"addonStages.{hook}"
        if not isinstance(entries, list):
            raise self._error(path, "want a list of stages")
        stages = tuple(self._stage(entry, f"{path}[{number}]") for number, entry in enumerate(entries))
        names = [stage.name for stage in stages]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise self._error(path, f"stage {twice!r} occurs twice")
        return stages

    def _stage(self, value: Any, path: str) -> Stage:
        known = {"name", "action", "waitForPreCondition", "waitForPostCondition", "timeout"}
        entry = self._mapping(value, path, known)
        name = self._text(entry, "name", path)
        if not _NAME.fullmatch(name) or ".." in name:
            raise self._error(f"{path}.name", f"{name!r} is no name of a folder in the addon archive")
        action = entry.get("action", "apply")
        if action not in ("apply", "delete"):
            raise self._error(f"{path}.action", f"want apply or delete, found {action!r}")
        return Stage(
            name,
            cast(Action, action),
            self._condition(entry.get("waitForPreCondition"), f"{path}.waitForPreCondition"),
            self._condition(entry.get("waitForPostCondition"), f"{path}.waitForPostCondition"),
            self._seconds(entry.get("timeout"), f"{path}.timeout"),
        )

    def _condition(self, value: Any, path: str) -> Condition | None:
        if value in (None, "", "~", "null"):
            return None
        entry = self._mapping(value, path, {"objects", "conditions"})
        listed = entry.get("objects") or []
        if not isinstance(listed, list):
            raise self._error(f"{path}.objects", "want a list")
        objects = tuple(self._object(item, f"{path}.objects[{number}]") for number, item in enumerate(listed))
        keys = [item.key for item in objects]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice:
            raise self._error(f"{path}.objects", f"key {twice!r} occurs twice")
        return Condition(self._text(entry, "conditions", path).strip(), objects)

    def _object(self, value: Any, path: str) -> Bound:
        entry = self._mapping(value, path, {"key", "apiVersion", "kind", "name", "namespace"})
        key, api_version, kind, name = (
            self._text(entry, field, path) for field in ("key", "apiVersion", "kind", "name")
        )
        namespace = entry.get("namespace") or ""
        if not isinstance(namespace, str):
            raise self._error(f"{path}.namespace", "want a text")
        return Bound(key, api_version, kind, name, namespace)

    def _seconds(self, value: Any, path: str) -> float:
        if value in (None, ""):
            return TIMEOUT
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
        total = 3600 * hours + 60 * minutes + seconds
        if not total:
            raise self._error(path, f"want a duration such as 90s or 10m, found {value!r}")
        return float(total)

    def _mapping(self, value: Any, path: str, known: set[str]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._error(path, "want a mapping")
        prefix = "" if path == "(file)" else f"{path}."
        self._unknown += [f"{prefix}{name}" for name in value if name not in known]
        return value

    def _text(self, entry: Mapping[str, Any], field: str, path: str) -> str:
        value = entry.get(field)
        if not isinstance(value, str) or not value:
            raise self._error(f"{path}.{field}", "missing, or not a text")
        return value

    def _error(self, path: str, problem: str) -> StagesError:
        return StagesError(f"release {self._release}: clusteraddon.yaml: {path}: {problem}")
