"""The effects that install, upgrade, check and remove a release, and keep Helm's records of it.

A record is stored before the first object is applied, and says at the end whether the release is deployed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shared.api.conditions import abridged, rfc3339
from shared.api.resources import NAMESPACE
from shared.applier.desired import UnknownKinds
from shared.applier.inventory import InventoryEntry
from shared.applier.live import find_live
from shared.applier.outcome import SyncIncomplete, SyncOutcome, format_waiting
from shared.applier.sync import plan_sync
from shared.clients import Clients
from shared.helm_proxies.release_record import (
    DEPLOYED,
    FAILED,
    SUPERSEDED,
    UNINSTALLED,
    RecordError,
    ReleaseRecord,
    delete_revision,
    read_record,
    write_record,
)
from shared.kube import ApiError, Client, Conflict, NotFound, Object, Resource, dig
from shared.kube.crds import CRD, await_all_established
from shared.manifests import Operation, hooks_of, identity

from .findings import Removal, Work
from .ownership import policy

_MAX_DESCRIPTION = 1000
_INITIAL = ("default", "kube-system")
"""Namespaces that each cluster has."""


@dataclass(frozen=True)
class Rolled:
    """The result of an operation: the record as it is stored, and what was done to the objects."""

    record: ReleaseRecord | None
    outcome: SyncOutcome


class ReleaseIncomplete(Exception):
    """An operation that failed, or that waits for objects or hooks.

    Attributes:
        record: The record as it is stored; None if there is none.
        entries: The inventory after the operation; None if no object was tried.
        waiting: Whether nothing failed.
    """

    def __init__(
        self,
        message: str,
        record: ReleaseRecord | None = None,
        entries: Sequence[InventoryEntry] | None = None,
        *,
        waiting: bool = False,
    ) -> None:
        super().__init__(message)
        self.record, self.entries, self.waiting = record, entries, waiting


@dataclass(frozen=True)
class RollOutRelease:
    """Effect: installs or upgrades a release, continues with that, or repairs the objects of a deployed release."""

    work: Work
    now: datetime

    def execute(self, clients: Clients) -> Rolled:
        """Returns the deployed release. Raises `ReleaseIncomplete` unless the release is deployed in the end."""
        work, client = self.work, self.work.rollout.cluster.client
        record = work.record.begun(self.now) if work.is_new else work.record
        if work.is_new:
            try:
                self._begin(client, record)
            except (ApiError, RecordError) as error:
                raise ReleaseIncomplete(_beginning(error, record), work.history.latest) from error
        problem = waiting = ""
        unavailable = False
        try:
            outcome = work.rollout.execute(clients)
            if unready := self._unready(outcome):
                waiting = f"waiting for {format_waiting(unready)}"
        except SyncIncomplete as error:
            outcome, unavailable = error.outcome, error.unavailable
            problem, waiting = ("", str(error)) if error.waiting and not outcome.failed_hooks else (str(error), "")
        if waiting and self._is_overdue(record):
            problem = f"not ready after {work.options.timeout:g} s: {waiting}"
        if waiting and not problem:
            raise ReleaseIncomplete(waiting, record, outcome.entries, waiting=True)
        if unavailable:  # whether the operation fails is open
            raise ReleaseIncomplete(problem, record, outcome.entries)
        try:
            record = self._end(client, record, problem)
        except (ApiError, RecordError) as error:
            raise ReleaseIncomplete(
                f"cannot write the record of the release: {error}", record, outcome.entries
            ) from error
        if problem:
            raise ReleaseIncomplete(problem, record, outcome.entries)
        return Rolled(record, outcome)

    def _unready(self, outcome: SyncOutcome) -> list[InventoryEntry]:
        options = self.work.options
        if not options.wait or self.work.operation == "check":
            return []
        return [entry for entry in outcome.not_ready if options.wait_for_jobs or entry.kind != "Job"]

    def _is_overdue(self, record: ReleaseRecord) -> bool:
        begun = record.begun_at
        return begun is not None and (self.now - begun).total_seconds() > self.work.options.timeout

    def _begin(self, client: Client, record: ReleaseRecord) -> None:
        """Creates namespace and CRDs at an installation, then stores the record."""
        work = self.work
        if work.operation == "install" and work.options.create_namespace and record.namespace not in _INITIAL:
            metadata = {"name": record.namespace, "labels": {"name": record.namespace}}
            _create(client, NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        definitions = (crd for crd in work.crds if identity(crd)[:2] == (CRD.group, CRD.kind))
        created = [crd for crd in (_create(client, CRD, crd) for crd in definitions) if crd is not None]
        if problems := await_all_established(client, created) if created else {}:
            raise ApiError("; ".join(f"CustomResourceDefinition {name}: {why}" for name, why in problems.items()))
        write_record(client, record, self.now, new=True)

    def _end(self, client: Client, record: ReleaseRecord, problem: str) -> ReleaseRecord:
        """Stores how the operation has ended. The record of a deployed release stays as it is.

        A rollback that has a problem has not ended: the next attempt continues with it.
        """
        work, is_rollback = self.work, self.work.operation == "rollback"
        if record.status == DEPLOYED or (problem and (is_rollback or record.status == FAILED)):
            return record
        verb = "Upgrade" if work.operation == "upgrade" else "Install"
        if problem:
            record = replace(record, status=FAILED, description=f"{verb} failed: {problem}"[:_MAX_DESCRIPTION])
            write_record(client, record, self.now)
            return record
        record = replace(record, status=DEPLOYED, description=record.description if is_rollback else f"{verb} complete")
        for revision in work.history.unfinished(record.revision):  # first, because a deployed release has ended
            former = work.history.deployed
            if former is None or former.revision != revision:
                former = read_record(client, record.name, record.namespace, revision)
            if former is not None:
                write_record(client, replace(former, status=SUPERSEDED), self.now)
        write_record(client, record, self.now)
        stored = [number for number, _ in work.history.revisions if number != record.revision]
        kept = work.options.max_history - 1
        for number in stored[: len(stored) - kept] if kept >= 0 else ():
            delete_revision(client, record.name, record.namespace, number)
        return record


def _create(client: Client, resource: Resource, obj: Object) -> Object | None:
    """Creates an object, and returns it as stored; None for an existing one, which stays as it is."""
    try:
        return client.create(resource, obj)
    except Conflict as error:
        if not error.already_exists:
            raise
        return None


def _beginning(error: Exception, record: ReleaseRecord) -> str:
    if isinstance(error, NotFound) and dig(error.body, "details.kind") == "namespaces":
        return f"namespace {record.namespace} does not exist: create it, or set spec.options.install.createNamespace"
    return str(error)


@dataclass(frozen=True)
class RemoveRelease:
    """Effect: runs the hooks of a deletion, deletes the objects of a release, and its records or their contents."""

    removal: Removal
    now: datetime

    def execute(self, clients: Clients) -> None:
        """Removes the release. Raises `ReleaseIncomplete` if an object or a record is left, or a hook runs."""
        removal, latest = self.removal, self.removal.history.latest
        before, after = self._hooks("pre-delete"), self._hooks("post-delete")
        later = {identity(obj) for obj in after}
        entries = [entry for entry in removal.entries if entry.identity not in later]
        begun = [entry for entry in removal.entries if entry.identity in later]
        try:
            if entries or not begun:  # otherwise the objects are gone
                outcome = self._step(clients, before, entries)
                entries = list(outcome.entries)
                if left := self._left(outcome):
                    message = f"waiting for the deletion of {abridged([*map(str, left)], 3, ', ')}"
                    raise ReleaseIncomplete(message, latest, [*entries, *left, *begun], waiting=True)
            entries, begun = [*entries, *begun], []
            if after:
                entries = list(self._step(clients, after, entries).entries)
            self._step(clients, [], entries)
            self._end(removal.connection.cluster.client)
        except SyncIncomplete as error:
            waiting = error.waiting and not error.outcome.failed_hooks
            raise ReleaseIncomplete(str(error), latest, [*error.outcome.entries, *begun], waiting=waiting) from error
        except (ApiError, RecordError, UnknownKinds) as error:
            raise ReleaseIncomplete(str(error), removal.history.latest) from error

    def _hooks(self, hook: str) -> list[Object]:
        return [obj for obj in self.removal.hooks if hook in hooks_of(obj)]

    def _left(self, outcome: SyncOutcome) -> list[InventoryEntry]:
        """Returns the deleted objects that still exist, such as those with finalizers, if the options say to wait."""
        cluster = self.removal.connection.cluster
        deleted = outcome.pruned if self.removal.options.wait else ()
        return [entry for entry in deleted if find_live(cluster, entry) is not None]

    def _step(self, clients: Clients, objects: Sequence[Object], entries: Sequence[InventoryEntry]) -> SyncOutcome:
        removal = self.removal
        operation: Operation = "delete"
        rules = policy(removal.release, removal.options)
        rollout = plan_sync(
            removal.connection,
            objects,
            entries,
            rules,
            default_namespace=removal.release.namespace,
            operation=operation,
            resumed=True,
        )
        return rollout.execute(clients)

    def _end(self, client: Client) -> None:
        removal = self.removal
        latest, keep = removal.history.latest, removal.options.keep_history
        for number, _ in removal.history.revisions:
            if keep and latest is not None and number == latest.revision:
                description = removal.options.description or "Uninstallation complete"
                ended = replace(latest, status=UNINSTALLED, deleted=rfc3339(self.now), description=description)
                write_record(client, ended, self.now)
            elif not keep:
                delete_revision(client, removal.release.name, removal.release.namespace, number)
