"""The journey of a chart: installed, looked at again, upgraded, rolled back and removed, with the helm program beside.

The helm program renders each revision, too, and reads the records of the function.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared import bounded_yaml
from shared.api.resources import HELM_RELEASE_PROXY
from shared.kube import ApiError, Key, Object, dig
from shared.kube.discovery import Discovery
from tests.support.helm_releases import HelmWorld

_PASSING = {"Event", "Lease", "Endpoints", "EndpointSlice", "ControllerRevision", "Pod", "ReplicaSet", "Job"}
"""Kinds whose objects controllers create and delete."""
_KEPT = {"CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume", "Namespace", "APIService"}
_SYSTEM = {"kube-root-ca.crt", "default"}
_KEEP = ("metadata", "annotations", "helm.sh/resource-policy")

Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name of an object."""
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Version:
    """A version of a chart: the archive, and the values of the release."""

    version: str
    archive: Path
    values: str = ""


@dataclass
class Report:
    """What the journey found. `objects` and `hooks` count those of the latest revision."""

    objects: int = 0
    hooks: int = 0
    writes: list[int] = field(default_factory=list)
    """The number of writes of each second look."""
    seconds: list[float] = field(default_factory=list)
    """The seconds of installation, upgrade, rollback and removal."""
    problems: list[str] = field(default_factory=list)


class Failed(Exception):
    """A step that makes the further steps pointless."""


@dataclass
class Journey:
    """A release of the chart `name` in `world`; `writes` counts the writes to the workload cluster so far."""

    world: HelmWorld
    name: str
    writes: Callable[[], int]
    release: str
    within: float = 30.0
    """Seconds for each step."""
    report: Report = field(default_factory=Report)

    def run(self, first: Version, second: Version) -> Report:
        """Runs all steps; what fails is in the report."""
        before = self._existing()
        try:
            self._step(first, [(1, "deployed")])
            self._step(second, [(1, "superseded"), (2, "deployed")], upgrade=True)
            self._step(first, [(1, "superseded"), (2, "superseded"), (3, "deployed")], upgrade=True)
        except (Failed, AssertionError) as failure:
            self.report.problems.append(str(failure))
        try:
            self._remove(before)
        except Failed as failure:
            self.report.problems.append(str(failure))
        return self.report

    def _step(self, version: Version, history: Sequence[tuple[int, str]], *, upgrade: bool = False) -> None:
        what = f"revision {len(history)}"
        expected = self._template(version, upgrade=upgrade)
        self.world.proxy(
            chartName=self.name, releaseName=self.release, version=version.version, values=version.values or None
        )
        started = time.monotonic()
        self._until_done(what)
        self.report.seconds.append(time.monotonic() - started)
        listed = json.loads(self.world.helm("history", self.release, "--output", "json"))
        if (found := [(one["revision"], one["status"]) for one in listed]) != list(history):
            self.report.problems.append(f"{what}: helm history shows {found}")
        self._compare(what, version, expected, upgrade=upgrade)
        before, proxy = self.writes(), self.world.read()
        self.world.call(resync=True)
        self.report.writes.append(self.writes() - before)
        if self.report.writes[-1]:
            self.report.problems.append(f"{what}: a second look writes {self.report.writes[-1]} objects")
        if self.world.read() != proxy:
            self.report.problems.append(f"{what}: a second look changes the HelmReleaseProxy")

    def _until_done(self, what: str) -> None:
        deadline = time.monotonic() + self.within
        while (answer := self.world.call()).retry_after is not None or not answer.status < 300:
            if time.monotonic() > deadline or self._hopeless():
                raise Failed(f"{what}: {answer.message}; {self.world.condition('HelmReleaseReady').get('message')}")
            time.sleep(0.5)
        if (ready := self.world.condition("Ready"))["status"] != "True":
            raise Failed(f"{what}: {ready}")

    def _hopeless(self) -> bool:
        message = str(self.world.condition("HelmReleaseReady").get("message", ""))
        return "cannot be rendered" in message

    def _template(self, version: Version, *, upgrade: bool) -> str:
        """Returns what the helm program renders, with the kinds that the cluster serves before."""
        arguments = [*self._chart(version), "--skip-tests"]
        if upgrade:
            try:
                return self.world.helm("template", *arguments, "--is-upgrade", "--dry-run=server")
            except AssertionError:
                arguments.append("--is-upgrade")
        served = {*Discovery(self.world.client).served()}
        crds = bounded_yaml.load_all(self.world.helm("show", "crds", str(version.archive)))
        for crd in filter(None, crds):
            for each in dig(crd, "spec.versions", []):
                served.add((f"{dig(crd, 'spec.group')}/{each['name']}", str(dig(crd, "spec.names.kind"))))
        kinds = sorted({api for api, _ in served} | {f"{api}/{kind}" for api, kind in served})
        kube = self.world.client.request("GET", "/version")["gitVersion"]
        return self.world.helm("template", *arguments, "--kube-version", kube, "--api-versions", ",".join(kinds))

    def _chart(self, version: Version) -> list[str]:
        values = self.world.folder / "values.yaml"
        values.write_text(version.values)
        return [self.release, str(version.archive), "--values", str(values)]

    def _compare(self, what: str, version: Version, expected: str, *, upgrade: bool) -> None:
        ours = _documents(self.world.helm("get", "manifest", self.release))
        hooks = _documents(self.world.helm("get", "hooks", self.release))
        self.report.objects, self.report.hooks = len(ours), len(hooks)
        found = {**ours, **{key: doc for key, doc in hooks.items() if not _is_test(doc)}}
        wanted = {key: doc for key, doc in _documents(expected).items() if not _is_test(doc)}
        if found == wanted:
            return
        varying = _documents(self._template(version, upgrade=upgrade))
        for key in sorted(wanted.keys() | found.keys()):
            if key not in wanted or key not in found:
                self.report.problems.append(f"{what}: only {'helm' if key in wanted else 'the function'} renders {key}")
                continue
            random = set(_differences(wanted[key], varying.get(key)))
            for path in set(_differences(wanted[key], found[key])) - random:
                if not any(path[: len(each)] == each for each in random):
                    values = [_at(doc, path) for doc in (wanted[key], found[key])]
                    self.report.problems.append(f"{what}: {key} differs at {path}: {str(values)[:300]}")

    def _existing(self) -> Mapping[Identity, Object]:
        found = {}
        for resource in Discovery(self.world.client).served().values():
            if resource.kind in _PASSING:
                continue
            with suppress(ApiError):  # such as kinds that cannot be listed
                for obj in self.world.client.list(resource):
                    meta = obj["metadata"]
                    found[(resource.group, resource.kind, meta.get("namespace", ""), meta["name"])] = obj
        return found

    def _remove(self, before: Mapping[Identity, Object]) -> None:
        key = Key(self.world.namespace, "web-demo")
        self.world.client.delete(HELM_RELEASE_PROXY, key)
        started = time.monotonic()
        while self.world.client.find(HELM_RELEASE_PROXY, key) is not None:
            answer = self.world.call()
            if time.monotonic() - started > self.within:
                raise Failed(f"removal: {answer.message}")
            time.sleep(0.2)
        self.report.seconds.append(time.monotonic() - started)
        for _ in range(20):
            left = [key for key, obj in self._existing().items() if key not in before and not _is_kept(key, obj)]
            if not left:
                return
            time.sleep(1.0)
        self.report.problems.append(f"removal: left are {sorted(left)}")


def _is_kept(key: Identity, obj: Object) -> bool:
    return key[1] in _KEPT or key[3] in _SYSTEM or dig(obj, _KEEP) == "keep"


def _is_test(document: Any) -> bool:
    return str(dig(document, ("metadata", "annotations", "helm.sh/hook"), "")).startswith("test")


def _documents(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for document in filter(None, bounded_yaml.load_all(text)):
        name = " ".join(
            str(dig(document, path, "")) for path in ("apiVersion", "kind", "metadata.namespace", "metadata.name")
        )
        seen[name] += 1
        found[f"{name} {seen[name]}" if seen[name] > 1 else name] = document
    return found


def _differences(one: Any, other: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yields the paths of the values that differ; the type of a number counts."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if key not in one or key not in other:
                yield (*path, key)
            else:
                yield from _differences(one[key], other[key], (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, (*path, number))
    elif one != other or type(one) is not type(other):
        yield path


def _at(document: Any, path: Path_) -> Any:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document
