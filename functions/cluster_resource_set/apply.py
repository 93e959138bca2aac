"""Applies the objects of sources to workload clusters, and records the results in the bindings of the Clusters."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from shared import tracing
from shared.api.conditions import abridged, rfc3339
from shared.api.resource_set import SourceRef
from shared.applier.apply import leaving_out_nulls
from shared.applier.connection import ClusterConnection, ConnectionFailed, connect_workload
from shared.applier.outcome import NOT_TRIED, error_text, is_server_failure
from shared.clients import Clients
from shared.kube import MANAGER, ApiError, Conflict, NotServed, Object, Resource, key_of
from shared.kube.crds import CRD, await_all_established
from shared.kube.responses import understood

from .bindings import record
from .sources import Source, SourceObject, by_phase, parse_all

FIELD_MANAGER = f"{MANAGER}-resource-set"
"""The field manager of all objects of sets in workload clusters."""
_DEFAULT_NAMESPACE = "default"
_CLUSTERS = 8
"""Clusters that are worked on at a time."""
_START_SECONDS = 15.0
"""Seconds in which work on clusters begins. The forwarder waits 120 s for an answer, and one cluster takes up to 90."""
_MAX_TEXT = 300
"""Characters of the text about one object."""
_SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


@dataclass(frozen=True)
class Work:
    """The work for one Cluster: the sources to apply, and the former sources whose records are to go."""

    cluster: Object
    due: tuple[Source, ...] = ()
    former: tuple[SourceRef, ...] = ()


@dataclass(frozen=True)
class Applied:
    """The result for one Cluster.

    `is_connected` is False if its API server cannot be used, `tried` is False if the time was up.
    """

    problems: tuple[str, ...] = ()
    is_connected: bool = True
    tried: bool = True


@dataclass(frozen=True)
class ApplySources:
    """The effect that does the work for all Clusters. A failing Cluster delays no other Cluster."""

    resource_set: Object
    work: tuple[Work, ...]
    once: bool
    """Whether objects that exist stay as they are."""
    now: datetime

    def execute(self, clients: Clients) -> dict[str, Applied]:
        """Returns the results by the names of the Clusters. Raises `MemoryBusy` if the sources cannot be parsed now."""
        due = {source.ref: source for work in self.work for source in work.due}
        objects, problems = parse_all(due.values())
        run = _Run(self, clients, objects, problems, time.monotonic() + _START_SECONDS)
        # The order is random, so that clusters that do not answer cannot delay the same other clusters for ever.
        work = random.sample(self.work, len(self.work))
        size = min(_CLUSTERS, len(work))
        with ThreadPoolExecutor(size, thread_name_prefix="apply", initializer=tracing.in_threads()) as pool:
            return dict(zip((key_of(one.cluster).name for one in work), pool.map(run.one, work), strict=True))


@dataclass(frozen=True)
class _Run:
    effect: ApplySources
    clients: Clients
    objects: Sequence[SourceObject]
    problems: Mapping[SourceRef, str]
    until: float

    def one(self, work: Work) -> Applied:
        """Does the work for one Cluster. Errors become part of the result."""
        if time.monotonic() > self.until:
            return Applied(tried=False)
        try:
            return self._one(work)
        except ApiError as error:
            return Applied((error.detail[:_MAX_TEXT],))

    def _one(self, work: Work) -> Applied:
        due = [source.ref for source in work.due]
        failures: dict[SourceRef, list[str]] = {ref: [self.problems[ref]] for ref in due if ref in self.problems}
        if work.due:
            connection = connect_workload(self.clients, key_of(work.cluster))
            if isinstance(connection, ConnectionFailed):
                return Applied((connection.message[:_MAX_TEXT],), is_connected=False)
            objects = [one for one in self.objects if one.source.ref in due]
            for one, problem in _Cluster(connection, once=self.effect.once).apply_all(objects):
                failures.setdefault(one.source.ref, []).append(f"{one}: {problem}"[:_MAX_TEXT])
        records = [self._record(source, is_applied=source.ref not in failures) for source in work.due]
        record(self.clients, self.effect.resource_set, work.cluster, records, work.former)
        return Applied(tuple(f"{ref}: {abridged(texts, 3)}" for ref, texts in failures.items()))

    def _record(self, source: Source, *, is_applied: bool) -> Object:
        """Returns the record of a source in the binding. Cluster API records no hash of content that it cannot read."""
        content = {} if source.ref in self.problems else {"hash": source.hash}
        return {**source.ref._asdict(), **content, "applied": is_applied, "lastAppliedTime": rfc3339(self.effect.now)}


@dataclass
class _Cluster:
    """Applies objects to one workload cluster, one after the other."""

    connection: ClusterConnection
    once: bool
    stopped: bool = False
    """Whether the API server has stopped answering: the remaining objects are not tried."""
    _kinds: dict[tuple[str, str], Resource | None] = field(default_factory=dict)

    def apply_all(self, objects: Sequence[SourceObject]) -> list[tuple[SourceObject, str]]:
        """Applies the objects in their order. Returns the failed objects, each with the problem."""
        failed: list[tuple[SourceObject, str]] = []
        for of_phase in by_phase(objects):
            crds: dict[str, tuple[SourceObject, Object]] = {}
            for one in of_phase:
                try:
                    live = self._apply(one.obj)
                except ApiError as error:
                    failed.append((one, self._failed(error, is_secret=one.source.is_secret)))
                else:
                    if live is not None and one.obj["kind"] == CRD.kind:
                        crds[one.obj["metadata"]["name"]] = one, live
            failed += self._not_established(crds)
        return failed

    def _apply(self, obj: Object) -> Object | None:
        """Returns the live object; None if it exists and stays as it is. Raises `ApiError`."""
        if self.stopped:
            raise ApiError(NOT_TRIED)
        with understood(obj["kind"]):
            resource = self._resource(obj["apiVersion"], obj["kind"])
            if resource is None:
                raise NotServed(f"the workload cluster does not serve {obj['kind']} ({obj['apiVersion']})")
            body, client = _complete(obj, resource), self.connection.cluster.client
            if not self.once:
                return leaving_out_nulls(partial(client.apply, resource, manager=FIELD_MANAGER), body)
            try:
                return client.create(resource, body, manager=FIELD_MANAGER)
            except Conflict as error:
                if not error.already_exists:
                    raise
                return None

    def _resource(self, api_version: str, kind: str) -> Resource | None:
        """Returns the kind; None if the cluster does not serve it, for example because its CRD failed."""
        kinds, who = self._kinds, (api_version, kind)
        if who not in kinds:
            discovery = self.connection.cluster.discovery
            kinds[who] = self.connection.served.get(who) or discovery.resource(api_version, kind)
        return kinds[who]

    def _not_established(self, crds: Mapping[str, tuple[SourceObject, Object]]) -> list[tuple[SourceObject, str]]:
        """Waits until the kinds of these CRDs are served. Returns the CRDs of unserved kinds, with the problem."""
        if not crds:
            return []
        try:
            with understood("CRDs"):
                problems = await_all_established(self.connection.cluster.client, [live for _, live in crds.values()])
        except ApiError as error:
            problems = dict.fromkeys(crds, self._failed(error, is_secret=False))
        return [(crds[name][0], problem) for name, problem in problems.items() if name in crds]

    def _failed(self, error: ApiError, *, is_secret: bool) -> str:
        self.stopped = self.stopped or is_server_failure(error)
        return error_text(error, is_secret=is_secret)


def _complete(obj: Object, resource: Resource) -> Object:
    """Returns the object with a namespace if its kind has one, and without the fields that the server sets."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVER_FIELDS}
    if resource.namespaced:
        metadata["namespace"] = metadata.get("namespace") or _DEFAULT_NAMESPACE
    else:
        metadata.pop("namespace", None)
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}
