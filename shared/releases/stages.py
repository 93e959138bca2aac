"""Parses `clusteraddon.yaml`: the stages of a release's addons, one ordered list for each lifecycle hook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from shared import bounded_yaml

API_VERSION = "clusteraddonconfig.x-k8s.io/v1alpha1"
MAX_BYTES = 256 * 1024

AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE, AFTER_CLUSTER_UPGRADE = (
    "AfterControlPlaneInitialized",
    "BeforeClusterUpgrade",
    "AfterClusterUpgrade",
)
HOOKS = (AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE, AFTER_CLUSTER_UPGRADE)

Action = Literal["apply", "delete"]
TIMEOUT = 600.0
"""Seconds that a stage without a timeout waits for a condition before it counts as stuck."""

_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class StagesError(Exception):
    """A clusteraddon.yaml is unusable; the message names the release and the path of the field."""


@dataclass(frozen=True)
class BoundObject:
    """An object of the workload cluster that an expression reads as variable `key`."""

    key: str
    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class StageCondition:
    """A CEL expression that has to become true; `objects` are its variables."""

    expression: str
    objects: tuple[BoundObject, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A chart of the addon archive, in the folder `name`, and the conditions to wait for before and after it."""

    name: str
    action: Action = "apply"
    before: StageCondition | None = None
    after: StageCondition | None = None
    timeout: float = TIMEOUT


@dataclass(frozen=True)
class Stages:
    """The stages by hook. `unknown` are the paths of unknown keys, for the linter."""

    hooks: Mapping[str, tuple[Stage, ...]]
    unknown: tuple[str, ...] = ()

    def at(self, hook: str) -> tuple[Stage, ...]:
        """Returns the stages to go through at a hook.

        A hook without a list uses the list of another hook: an upgrade uses the installation's list, and vice versa.
        """
        order = {
            AFTER_CONTROL_PLANE_INITIALIZED: (AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE),
            BEFORE_CLUSTER_UPGRADE: (BEFORE_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED),
            AFTER_CLUSTER_UPGRADE: (AFTER_CLUSTER_UPGRADE, BEFORE_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED),
        }
        return next((self.hooks[name] for name in order.get(hook, HOOKS) if self.hooks.get(name)), ())

    def desired(self, hook: str) -> tuple[Stage, ...]:
        """Returns the stages whose charts are installed in the cluster after a hook.

        The list of BeforeClusterUpgrade is complete; the list of AfterClusterUpgrade adds charts to it, or deletes
        some.
        """
        stages = {
            stage.name: stage for stage in self.at(BEFORE_CLUSTER_UPGRADE if hook == AFTER_CLUSTER_UPGRADE else hook)
        }
        stages |= {
            stage.name: stage for stage in self.hooks.get(AFTER_CLUSTER_UPGRADE, ()) if hook == AFTER_CLUSTER_UPGRADE
        }
        return tuple(stage for stage in stages.values() if stage.action == "apply")


def parse(data: bytes, release: str) -> Stages:
    """Parses the file; `release` is for messages. Raises `StagesError`."""
    if len(data) > MAX_BYTES:
        raise StagesError(f"release {release}: clusteraddon.yaml is larger than {MAX_BYTES} bytes")
    try:
        document = bounded_yaml.load(data, untyped=True)
    except bounded_yaml.YAMLError as error:
        words = " ".join(str(error).split())[:300]
        raise StagesError(f"release {release}: clusteraddon.yaml is not YAML: {words}") from error
    return _Reader(release).stages(document)


class _Reader:
    """Reads fields; errors name the path."""

    def __init__(self, release: str) -> None:
        self._release = release
        self._unknown: list[str] = []

    def stages(self, document: Any) -> Stages:
        root = self._mapping(document, "(file)", {"apiVersion", "clusterAddonVersion", "addonStages", "kind"})
        version = root.get("apiVersion", API_VERSION)
        if version != API_VERSION:
            raise self._error("apiVersion", f"must be {API_VERSION}, found {version!r}")
        lists = self._mapping(root.get("addonStages"), "addonStages", set(HOOKS))
        unknown = [name for name in lists if name not in HOOKS]
        if unknown:
            raise self._error(f"addonStages.{unknown[0]}", f"no such hook; must be one of {', '.join(HOOKS)}")
        hooks = {name: self._list(name, entries) for name, entries in lists.items()}
        if not any(hooks.values()):
            raise self._error("addonStages", "has no stages")
        return Stages(hooks, tuple(self._unknown))

    def _list(self, hook: str, entries: Any) -> tuple[Stage, ...]:
        path = f"addonStages.{hook}"
        if not isinstance(entries, list):
            raise self._error(path, "must be a list of stages")
        stages = tuple(self._stage(entry, f"{path}[{number}]") for number, entry in enumerate(entries))
        names = [stage.name for stage in stages]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate:
            raise self._error(path, f"stage {duplicate!r} occurs twice")
        return stages

    def _stage(self, value: Any, path: str) -> Stage:
        known = {"name", "action", "waitForPreCondition", "waitForPostCondition", "timeout"}
        entry = self._mapping(value, path, known)
        name = self._text(entry, "name", path)
        if not _NAME.fullmatch(name) or ".." in name:
            raise self._error(f"{path}.name", f"{name!r} is not a folder name in the addon archive")
        action = entry.get("action", "apply")
        if action not in ("apply", "delete"):
            raise self._error(f"{path}.action", f"must be apply or delete, found {action!r}")
        return Stage(
            name,
            cast(Action, action),
            self._condition(entry.get("waitForPreCondition"), f"{path}.waitForPreCondition"),
            self._condition(entry.get("waitForPostCondition"), f"{path}.waitForPostCondition"),
            self._seconds(entry.get("timeout"), f"{path}.timeout"),
        )

    def _condition(self, value: Any, path: str) -> StageCondition | None:
        if value in (None, "", "~", "null"):
            return None
        entry = self._mapping(value, path, {"objects", "conditions"})
        listed = entry.get("objects") or []
        if not isinstance(listed, list):
            raise self._error(f"{path}.objects", "must be a list")
        objects = tuple(self._object(item, f"{path}.objects[{number}]") for number, item in enumerate(listed))
        keys = [item.key for item in objects]
        duplicate = next((key for key in keys if keys.count(key) > 1), None)
        if duplicate:
            raise self._error(f"{path}.objects", f"key {duplicate!r} occurs twice")
        return StageCondition(self._text(entry, "conditions", path).strip(), objects)

    def _object(self, value: Any, path: str) -> BoundObject:
        entry = self._mapping(value, path, {"key", "apiVersion", "kind", "name", "namespace"})
        key, api_version, kind, name = (
            self._text(entry, field, path) for field in ("key", "apiVersion", "kind", "name")
        )
        namespace = entry.get("namespace") or ""
        if not isinstance(namespace, str):
            raise self._error(f"{path}.namespace", "must be a string")
        return BoundObject(key, api_version, kind, name, namespace)

    def _seconds(self, value: Any, path: str) -> float:
        if value in (None, ""):
            return TIMEOUT
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
        total = 3600 * hours + 60 * minutes + seconds
        if not total:
            raise self._error(path, f"must be a duration such as 90s or 10m, found {value!r}")
        return float(total)

    def _mapping(self, value: Any, path: str, known: set[str]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._error(path, "must be a mapping")
        prefix = "" if path == "(file)" else f"{path}."
        self._unknown += [f"{prefix}{name}" for name in value if name not in known]
        return value

    def _text(self, entry: Mapping[str, Any], field: str, path: str) -> str:
        value = entry.get(field)
        if not isinstance(value, str) or not value:
            raise self._error(f"{path}.{field}", "missing, or not a string")
        return value

    def _error(self, path: str, problem: str) -> StagesError:
        return StagesError(f"release {self._release}: clusteraddon.yaml: {path}: {problem}")
