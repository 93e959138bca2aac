"""Reads the inputs of a decision about one HelmReleaseProxy, up to the first that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shared import watch_filter
from shared.api import cluster as cluster_api
from shared.api.conditions import READY, is_true
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed, connect_workload
from shared.applier.desired import UnknownKinds, desired
from shared.charts import ChartError, Release
from shared.clients import Clients
from shared.helm_charts.request import ChartRequest
from shared.helm_charts.store import MissingChart, read_chart
from shared.helm_proxies.names import INSTALLED
from shared.helm_proxies.release_record import (
    DEPLOYED,
    History,
    RecordError,
    read_history,
)
from shared.kube import ApiError, Key, NotServed, Object, deleting, dig, key_of
from shared.manifests import hooks_of
from shared.running_core import running_helm_addon
from shared.runtime import Request

from .findings import (
    Finding,
    GivenUp,
    LeftTo,
    Observed,
    Problem,
    Removal,
    Rival,
    UpToDate,
)
from .options import Options
from .ownership import policy, precedence
from .steps import Look, adopted, is_recorded, next_step, objects_of
from .triggers import is_installed_once
from .values import InvalidValues, Values, read_values, recorded_texts


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
        look = Look(proxy, connection, release, history, chart, values, options, rules, digest, attempt, confidential)
        finding = next_step(look)
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
    return history.latest is not None and not is_recorded(proxy, history.latest)


def _unsupported(spec: Mapping[str, object]) -> str:
    if dig(spec, "applyMethod") == "Helm":
        return (
            "spec.applyMethod Helm is not implemented, because no function can continue an interrupted run of helm: "
            "remove the field, or set it to ServerSide"
        )
    return ""


def _connected(clients: Clients, proxy: Object, cluster: Object, finding: Finding) -> Observed:
    """Returns the finding, or the failure to connect to the cluster, which comes first."""
    connection = connect_workload(clients, key_of(cluster))
    return Observed(proxy, cluster, connection if isinstance(connection, ConnectionFailed) else finding)


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
                entries = adopted(history.latest, history, connection, release, options)
            if is_known:
                found = [
                    obj for obj in objects_of(history.latest, options) if hooks_of(obj) & {"pre-delete", "post-delete"}
                ]
                owner = policy(release, options).owner
                hooks = desired(found, connection.served, owner, default_namespace=release.namespace)
    except ApiError as error:
        return _unanswered(error)
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
