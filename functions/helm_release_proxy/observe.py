"""Reads the inputs of a decision about one HelmReleaseProxy, up to the first that is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from shared import charts, watch_filter
from shared.addons.chart_objects import Capabilities
from shared.addons.resolve import live_capabilities
from shared.api import cluster as cluster_api
from shared.api.conditions import READY, is_true
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY
from shared.applier import inventory
from shared.applier.cascade import KEEP
from shared.applier.connection import ClusterConnection, ConnectionFailed, connect_workload
from shared.applier.desired import UnknownKinds, desired, kinds_defined_by
from shared.applier.inventory import SYNCED, InventoryEntry, content_hash, entry_of
from shared.applier.policy import Policy
from shared.applier.sync import Sync, plan_sync
from shared.charts import ChartError, Release
from shared.charts.lookup import secret_values
from shared.clients import Clients
from shared.helm_charts.request import ChartRequest
from shared.helm_charts.store import MissingChart, StoredChart, read_chart
from shared.helm_proxies.names import INSTALLED
from shared.helm_proxies.release_record import (
    DEPLOYED,
    FAILED,
    PENDING_ROLLBACK,
    History,
    RecordError,
    ReleaseRecord,
    chart_of,
    new_record,
    read_history,
    same_values,
)
from shared.kube import ApiError, Key, NotServed, Object, deleting, dig, key_of
from shared.manifests import RELEASE_HOOKS, Operation, hooks_of
from shared.running_core import running_helm_addon
from shared.runtime import Request

from .options import Options
from .ownership import policy, precedence
from .triggers import is_installed_once
from .values import InvalidValues, Values, merge, read_values, recorded_texts


@dataclass(frozen=True)
class LeftTo:
    """Cluster API Addon Provider Helm runs as this Deployment, and reconciles HelmReleaseProxies."""

    controller: str


@dataclass(frozen=True)
class Problem:
    """The release cannot be installed or read as it is."""

    message: str


@dataclass(frozen=True)
class Rival:
    """Another HelmReleaseProxy has the same release on the same cluster, and precedes."""

    name: str


@dataclass(frozen=True)
class UpToDate:
    """The release is deployed, and no resync was requested."""

    chart: StoredChart


@dataclass(frozen=True)
class GivenUp:
    """An operation with this chart, these values and options has failed and was undone. It is not tried again."""

    chart: StoredChart


@dataclass(frozen=True)
class Adoption:
    """A deployed release of this chart and these values exists, which another installer may have made."""

    chart: StoredChart
    digest: str
    record: ReleaseRecord
    entries: Sequence[InventoryEntry]


@dataclass(frozen=True)
class Work:
    """An installation, an upgrade, or the check of a deployed release.

    Attributes:
        chart: The chart.
        digest: Identifies chart and values.
        history: The stored revisions.
        record: The record of the revision; a new one is not stored yet.
        rollout: Applies and prunes the objects.
        options: The options of the HelmReleaseProxy.
        crds: The objects of the `crds/` folders to create before.
        operation: The operation of Helm; `check` for a deployed release.
        attempt: Identifies chart, values and options.
        former_digest: The digest of the deployed record, to which a failed upgrade may be rolled back; "" for none.
    """

    chart: StoredChart
    digest: str
    history: History
    record: ReleaseRecord
    rollout: Sync
    options: Options
    operation: Operation
    attempt: str
    former_digest: str = ""
    crds: Sequence[Object] = ()

    @property
    def is_new(self) -> bool:
        """Whether the record is not stored yet."""
        return self.record is not self.history.latest


@dataclass(frozen=True)
class Removal:
    """The removal of a release: its objects, the hooks of its record, and the stored revisions."""

    connection: ClusterConnection
    release: Release
    history: History
    entries: Sequence[InventoryEntry]
    hooks: Sequence[Object]
    options: Options
    attempt: str = ""
    """Identifies chart, values and options of a failed installation that is undone; "" if the release is deleted."""


Finding = LeftTo | ConnectionFailed | MissingChart | Problem | Rival | UpToDate | GivenUp | Adoption | Work | Removal


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one HelmReleaseProxy."""

    proxy: Object | None
    cluster: Object | None = None
    finding: Finding | None = None
    """The missing prerequisite, or the work to do; None if no other input is needed."""
    confidential: Collection[str] = field(default=(), repr=False)
    """Texts that no status and no message may contain."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs of a decision. A release that is up to date costs no request to its cluster."""
    proxy = request.primary
    if proxy is None or cluster_api.is_paused(proxy):
        return Observed(proxy)
    if controller := running_helm_addon(clients.management, clients.remembered):
        return Observed(proxy, finding=LeftTo(controller))
    name = str(dig(proxy, "spec.clusterRef.name", "")) or "-"
    try:
        cluster = clients.management.find(CLUSTER, Key(request.key.namespace, name))
    except NotServed as error:
        return Observed(proxy, finding=ConnectionFailed(str(error)))
    if cluster is None or cluster_api.is_paused(cluster) or is_installed_once(proxy):
        return Observed(proxy, cluster)
    watch_filter.require(cluster)
    if deleting(proxy):
        return _observe_removal(clients, proxy, cluster) if is_installed(proxy) else Observed(proxy, cluster)
    if not cluster_api.control_plane_initialized(cluster) or not dig(proxy, "spec.releaseName"):
        return Observed(proxy, cluster)
    return _find_work(clients, request, proxy, cluster)


def is_installed(proxy: Mapping[str, object]) -> bool:
    """Returns whether anything may have been written to the workload cluster."""
    recorded = any(dig(proxy, f"status.{name}") for name in ("resources", "digest", "revision"))
    return bool(dig(proxy, "spec.releaseName")) and (recorded or INSTALLED in dig(proxy, "metadata.annotations", {}))


def release_of(proxy: Mapping[str, object]) -> Release:
    """Returns name and namespace of the release."""
    return Release(str(dig(proxy, "spec.releaseName", "")), str(dig(proxy, "spec.namespace", "") or "default"))


def _find_work(clients: Clients, request: Request, proxy: Object, cluster: Object) -> Observed:
    spec, release = proxy["spec"], release_of(proxy)
    chart = read_chart(clients, ChartRequest.from_spec(spec, request.key.namespace))
    try:
        options, values = Options.of(spec), read_values(clients, spec, request.key.namespace)
    except (InvalidValues, ValueError) as error:
        return _connected(clients, proxy, cluster, Problem(str(error)))
    if problem := release.problem or _unsupported(spec):
        return _connected(clients, proxy, cluster, Problem(problem))
    if isinstance(chart, MissingChart):
        return _connected(clients, proxy, cluster, chart)
    digest = inventory.digest(chart.digest, release.name, release.namespace, inventory.content_hash(values.values))
    ready = is_true(dig(proxy, "status.conditions"), READY) and dig(proxy, "status.status") == DEPLOYED
    if ready and dig(proxy, "status.digest") == digest and not request.event.is_look:
        return Observed(proxy, cluster, UpToDate(chart), values.confidential)
    attempt = inventory.digest(digest, inventory.content_hash(dig(spec, "options", {})))
    if options.atomic and dig(proxy, "status.failedAttempt") == attempt and not request.event.is_look:
        return Observed(proxy, cluster, GivenUp(chart), values.confidential)
    connection = connect_workload(clients, key_of(cluster))
    if isinstance(connection, ConnectionFailed):
        return Observed(proxy, cluster, connection)
    confidential = set(values.confidential)
    finding: Finding
    try:
        history = read_history(connection.cluster.client, release.name, release.namespace)
    except RecordError as error:
        return Observed(proxy, cluster, Problem(str(error)), confidential)
    except ApiError as error:
        return Observed(proxy, cluster, _unanswered(error), confidential)
    if _may_be_of_another(proxy, history) and (rival := _find_rival(clients, proxy)):
        return Observed(proxy, cluster, Rival(rival), confidential)
    proxies = partial(clients.management.list, HELM_RELEASE_PROXY, request.key.namespace)
    rules = policy(release, options, precedence(proxy, proxies))
    try:
        finding = _next_step(
            proxy, connection, release, history, chart, values, options, rules, digest, attempt, confidential
        )
    except UnknownKinds as error:
        connection.cluster.discovery.invalidate()  # the next look may find that they are served
        finding = Problem(str(error))
    except (ChartError, RecordError) as error:
        finding = Problem(str(error))
    except ApiError as error:
        finding = _unanswered(error)
    return Observed(proxy, cluster, finding, confidential)


def _unanswered(error: ApiError) -> ConnectionFailed:
    return ConnectionFailed(f"the workload API server does not answer: {error}")


def _may_be_of_another(proxy: Object, history: History) -> bool:
    """Returns whether another HelmReleaseProxy may have stored the newest record.

    Of two HelmReleaseProxies that install a release at once, the API server lets one store the first record.
    """
    return history.latest is not None and not _is_recorded(proxy, history.latest)


def _is_recorded(proxy: Object, record: ReleaseRecord) -> bool:
    """Returns whether the status names this record."""
    named = (dig(proxy, "status.revision"), dig(proxy, "status.recordDigest"))
    return named == (record.revision, record.digest)


def _unsupported(spec: Mapping[str, object]) -> str:
    if dig(spec, "applyMethod") == "Helm":
        return (
            "spec.applyMethod Helm is not implemented, because nothing can continue an interrupted run of helm: "
            "leave it out, or choose ServerSide"
        )
    return ""


def _connected(clients: Clients, proxy: Object, cluster: Object, finding: Finding) -> Observed:
    """Returns the finding, or the failure to connect to the cluster, which comes first."""
    connection = connect_workload(clients, key_of(cluster))
    return Observed(proxy, cluster, connection if isinstance(connection, ConnectionFailed) else finding)


def _next_step(
    proxy: Object,
    connection: ClusterConnection,
    release: Release,
    history: History,
    chart: StoredChart,
    values: Values,
    options: Options,
    rules: Policy,
    digest: str,
    attempt: str,
    confidential: set[str],
) -> Adoption | GivenUp | Work | Removal | ConnectionFailed:
    """Returns the next step of a release. A revision is rendered once; afterwards its record has the objects."""
    latest, entries = history.latest, inventory.load(dig(proxy, "status.resources"))
    confidential |= recorded_texts(latest.config if latest else {}, values)
    archive = f"{chart.name}-{chart.version}.tgz"
    is_recorded = latest is not None and latest.revision == dig(proxy, "status.revision")
    recorded_digest = dig(proxy, "status.recordDigest")
    gave_up = options.atomic and dig(proxy, "status.failedAttempt") == attempt
    is_ours = latest is not None and _is_recorded(proxy, latest)
    if gave_up and not is_ours:
        return GivenUp(chart)
    if latest is not None and is_ours and (gave_up or dig(proxy, "status.digest") == digest):
        operation = _operation(proxy, latest, history)
        if options.atomic and latest.status == FAILED and operation == "install":
            failed = History(history.revisions[-1:], latest)
            return Removal(connection, release, failed, entries, (), replace(options, keep_history=False), attempt)
        former = history.deployed
        if (
            options.atomic
            and latest.status == FAILED
            and former is not None
            and former.digest == dig(proxy, "status.formerRecordDigest")
        ):
            objects = _objects_of(former, options)
            confidential |= recorded_texts(former.config, values)
            confidential.update(text for obj in objects for text in secret_values(obj))
            rollout = plan_sync(
                connection,
                objects,
                entries,
                rules,
                default_namespace=release.namespace,
                operation="rollback",
            )
            record = former.rollback(history.next_revision)
            return Work(chart, digest, history, record, rollout, options, "rollback", attempt)
        objects = _objects_of(latest, options)
        if charts.traits(chart.archive, archive).looks_up:
            confidential.update(text for obj in objects for text in secret_values(obj))
        rollout = plan_sync(
            connection,
            objects,
            entries,
            rules,
            default_namespace=release.namespace,
            operation=operation,
            resumed=operation != "check",
        )
        return Work(chart, digest, history, latest, rollout, options, operation, attempt)
    if latest is not None and (not entries or not is_recorded):
        entries = _adopted(latest, history, connection, release, options)
        same = latest.chart_version == chart.version and dig(latest.chart, "metadata.name") == chart.name
        trusted = recorded_digest in (None, latest.digest)  # who can write Secrets in the cluster can write a record
        if trusted and latest.status == DEPLOYED and same and same_values(latest.config, values.values):
            return Adoption(chart, digest, latest, entries)
    config = merge(latest.config, values.values) if latest and options.reuse_values else values.values
    needs_facts = charts.traits(chart.archive, archive).needs_cluster_facts
    facts = live_capabilities(connection) if needs_facts else Capabilities("")
    if isinstance(facts, ConnectionFailed):
        return facts
    rendered = charts.render_release(
        chart.archive,
        config,
        Release(release.name, release.namespace, history.next_revision, history.is_installed),
        chart_name=archive,
        kube_version=facts.version or None,
        api_versions=facts.api_versions,
        live=facts.live,
    )
    if facts.live is not None:
        confidential |= facts.live.secrets
    operation = "upgrade" if history.is_installed else "install"
    crds = [] if options.skip_crds else rendered.crds
    if options.include_crds:
        rendered = replace(rendered, objects=[*map(_kept, crds), *rendered.objects])
    crds = [] if options.include_crds or operation == "upgrade" else crds
    record = new_record(
        release.name,
        release.namespace,
        history,
        chart=chart_of(chart.archive, archive),
        config=config,
        rendered=rendered,
    )
    rollout = plan_sync(
        ClusterConnection(connection.cluster, {**connection.served, **kinds_defined_by(crds)}),
        [*rendered.objects, *([] if options.disable_hooks else rendered.hooks)],
        entries,
        rules,
        default_namespace=release.namespace,
        operation=operation,
    )
    former_digest = _former_digest(proxy, history)
    return Work(chart, digest, history, record, rollout, options, operation, attempt, former_digest, crds)


def _operation(proxy: Object, latest: ReleaseRecord, history: History) -> Operation:
    """Returns the operation that continues with the newest record."""
    if PENDING_ROLLBACK in (
        latest.status,
        dig(proxy, "status.status"),
    ):  # a deployed one: its status is not written yet
        return "rollback"
    return "check" if latest.status == DEPLOYED else history.operation_of(latest.revision)


def _former_digest(proxy: Object, history: History) -> str:
    """Returns the digest of the deployed record if the functions have stored it or taken it over, else ""."""
    former = history.deployed
    if former is None:
        return ""
    if former is history.latest:
        trusted = dig(proxy, "status.recordDigest") in (None, former.digest)
    else:
        trusted = dig(proxy, "status.formerRecordDigest") == former.digest
    return former.digest if trusted else ""


def _kept(crd: Object) -> Object:
    """Returns a CRD of the release with the annotation that keeps it from every deletion."""
    annotations = {**dig(crd, "metadata.annotations", {}), KEEP: "keep"}
    return {**crd, "metadata": {**crd["metadata"], "annotations": annotations}}


def _objects_of(record: ReleaseRecord, options: Options) -> list[Object]:
    """Returns the objects and hooks of a record."""
    name = f"the record of release {record.name}"
    objects = charts.parse(record.manifests, default_namespace=record.namespace, name=name, hooks=RELEASE_HOOKS)
    return [obj for obj in objects if not (options.disable_hooks and hooks_of(obj))]


def _adopted(
    latest: ReleaseRecord, history: History, connection: ClusterConnection, release: Release, options: Options
) -> list[InventoryEntry]:
    """Returns the inventory of a release that another installer has made: the objects of its records."""
    rules, known = policy(release, options), connection.served
    found: dict[object, InventoryEntry] = {}
    for record in filter(None, (history.deployed, latest)):
        plain = [obj for obj in _objects_of(record, options) if not hooks_of(obj)]
        kinds = {**known, **kinds_defined_by(plain)}
        objects = [obj for obj in plain if (obj["apiVersion"], obj["kind"]) in kinds]
        for obj in desired(objects, known, rules.owner, default_namespace=release.namespace):
            entry = entry_of(obj)
            if record.status == DEPLOYED:
                entry = InventoryEntry(**{**vars(entry), "hash": content_hash(obj), "status": SYNCED})
            found[entry.identity] = entry
    return list(found.values())


def _observe_removal(clients: Clients, proxy: Object, cluster: Object) -> Observed:
    try:
        values = read_values(clients, proxy["spec"], key_of(proxy).namespace)
    except InvalidValues:
        values = Values()
    confidential = set(values.confidential)
    finding = _find_removal(clients, proxy, cluster, values, confidential)
    return Observed(proxy, cluster, finding, confidential)


def _find_removal(
    clients: Clients, proxy: Object, cluster: Object, values: Values, confidential: set[str]
) -> ConnectionFailed | Problem | Rival | Removal:
    if rival := _find_rival(clients, proxy):
        return Rival(rival)
    connection = connect_workload(clients, key_of(cluster))
    if isinstance(connection, ConnectionFailed):
        return connection
    release = release_of(proxy)
    try:
        options = Options.of(proxy["spec"])
    except ValueError:
        options = Options()
    try:
        history = read_history(connection.cluster.client, release.name, release.namespace)
        entries = inventory.load(dig(proxy, "status.resources"))
        hooks: list[Object] = []
        if history.latest is not None:
            confidential |= recorded_texts(history.latest.config, values)
            recorded_digest = dig(proxy, "status.recordDigest")
            is_known = recorded_digest == history.latest.digest
            if not entries and (is_known or recorded_digest is None):
                entries = _adopted(history.latest, history, connection, release, options)
            if is_known:
                found = [
                    obj for obj in _objects_of(history.latest, options) if hooks_of(obj) & {"pre-delete", "post-delete"}
                ]
                owner = policy(release, options).owner
                hooks = desired(found, connection.served, owner, default_namespace=release.namespace)
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not answer: {error}")
    except (ChartError, RecordError, UnknownKinds) as error:
        return Problem(str(error))
    return Removal(connection, release, history, entries, hooks, options)


def _find_rival(clients: Clients, proxy: Object) -> str:
    """Returns the name of another HelmReleaseProxy with the same release on the same cluster that precedes this one.

    Installed ones precede others, then older ones.
    """
    cluster, release = str(dig(proxy, "spec.clusterRef.name", "")), release_of(proxy)
    for other in clients.management.list(HELM_RELEASE_PROXY, key_of(proxy).namespace):
        same = release_of(other) == release and dig(other, "spec.clusterRef.name") == cluster
        if same and dig(other, "metadata.uid") != dig(proxy, "metadata.uid") and _rank(other) < _rank(proxy):
            return key_of(other).name
    return ""


def _rank(proxy: Mapping[str, object]) -> tuple[bool, str, str]:
    installed = INSTALLED in dig(proxy, "metadata.annotations", {}) or bool(dig(proxy, "status.digest"))
    return not installed, str(dig(proxy, "metadata.creationTimestamp", "")), str(dig(proxy, "metadata.name", ""))
