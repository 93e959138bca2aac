"""Generates `docs/triggers.md` and `docs/configuration.md` from the functions' declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra import allocator
from shared import tracing
from shared.runtime import callers
from shared.settings import FOLDER, GROUPS, NAMESPACE, STORAGE, Group
from shared.triggers import Triggers, Watch

from . import values, workloads
from .files import NOTICE

_TRIGGERS_HEAD = f"""<!-- {NOTICE} -->

# What starts which function

Generated from `functions/*/triggers.py`, like the forwarder's watches and the Knative manifests. An update that changes
none of the fields is not forwarded. *By reference*: the event names the object but does not contain it. *With its
primary object*: the forwarder delivers a change only if the primary object exists. The event of its
creation makes the function read everything.

| function | kind or type of event | fields | changes |
|---|---|---|---|
"""
_EMITTED_HEAD = """
A function answers with at most one event. The following functions also post events to the URL in `K_SINK`, which a
SinkBinding sets in a cluster with Knative.

| function | types of events |
|---|---|
"""
_CONFIGURATION_HEAD = f"""<!-- {NOTICE} -->

# Configuration of an installation

In a cluster, settings are keys of ConfigMaps and Secrets in the namespace `{NAMESPACE}`. Every object and every key is
optional. A key can be in either of the two; put *secret* keys into the Secret. The Secret wins if both have a key. For
example:

    kubectl -n {NAMESPACE} create configmap {STORAGE.name} --from-literal=S3_ENDPOINT_URL=https://s3.example.com
    kubectl -n {NAMESPACE} create secret generic {STORAGE.name} \\
      --from-literal=AWS_ACCESS_KEY_ID=... --from-literal=AWS_SECRET_ACCESS_KEY=... \\
      --from-literal=CAPI_FUNCTIONS_STORE_KEY=$(openssl rand -hex 32)

They are mounted as files, which the kubelet updates in running pods. So a change reaches the functions within about a
minute, without a restart. Keys that are not listed here are ignored.

Local runs and commands read the same names from the environment variables of `capi-functions`. A variable overrides a
mounted file. In a cluster, an overlay of a kustomization can set variables in a Deployment, such as `LOG_LEVEL` and
`LOG_FORMAT` ([logs](metrics.md#logs)); the [chart](chart.md) has values for settings and variables.
"""
_POD_VARIABLES = (
    (
        "`THREADS`",
        f"Requests that one replica processes concurrently; the manifests set {workloads.THREADS}. See below.",
    ),
    ("`WORKERS`", f"Processes of one replica; the manifests set {workloads.WORKERS}. See below."),
    ("`HOME`", f"`{workloads.TEMPORARY}`, the only writable volume."),
    (
        ", ".join(f"`{name}`" for name in allocator.VARIABLES),
        "Make the C library return freed memory to the system.",
    ),
    (f"`{FOLDER}`", "The folder that the settings above are mounted to."),
    (
        "`METRICS_PORT`",
        "The only port of [metrics](metrics.md). Default: the port of the functions.",
    ),
    (
        f"`{callers.TOKEN_FILE}`",
        "The path of a file with a token. Functions and the forwarder's ingress require it in `Authorization: Bearer`, "
        "and send it to each other. Local runs set it. Default: no token is needed.",
    ),
    ("`LOG_LEVEL`, `LOG_FORMAT`", "See [logs](metrics.md#logs)."),
    (
        ", ".join(f"`{name}`" for name in tracing.ENDPOINTS),
        "The receiver of traces; see [traces](operations.md#traces), also for OpenTelemetry's other variables. "
        "Default: no traces.",
    ),
    (
        "`K_SINK`",
        "The URL for emitted events: of the Broker, set by a SinkBinding, or without Knative of the forwarder.",
    ),
    ("`K_CA_CERTS`", "The CA of the Broker, set by a SinkBinding if Knative encrypts. Its trust bundles count, too."),
)
_CHART_HEAD = f"""<!-- {NOTICE} -->

# Values of the Helm chart

The chart is in `infra/chart`. [Installation](installation.md#helm) helps to choose values.

| value | default | meaning |
|---|---|---|
"""
_SIZING = """
Threads mostly wait for other servers, so their number does not depend on the processors of a node. Each thread can
hold a chart or a file of a release in memory, so raise the memory limit with the number of threads. Leave `WORKERS` at
1, and scale by replicas, because each process has its own connections, locks and metrics.
"""


def triggers_page(declared: Mapping[str, Triggers]) -> str:
    """Returns the text of docs/triggers.md: the triggers of all functions, and the events that they emit."""
    emitting = [(f"`{name}`", ", ".join(f"`{type_}`" for type_ in t.emits)) for name, t in declared.items() if t.emits]
    return _TRIGGERS_HEAD + _table(_rows(declared)) + _EMITTED_HEAD + _table(emitting)


def configuration_page(declared: Mapping[str, Triggers]) -> str:
    """Returns the text of docs/configuration.md: all settings by group, with the functions that read them."""
    groups = "".join(_group(group, declared) for group in GROUPS)
    process = f"\n## Variables of the pods\n\n| variable | |\n|---|---|\n{_table(_POD_VARIABLES)}{_SIZING}"
    return _CONFIGURATION_HEAD + groups + process


def chart_page() -> str:
    """Returns the text of docs/chart.md: all values of the Helm chart."""
    return _CHART_HEAD + _table(values.table())


def _group(group: Group, declared: Mapping[str, Triggers]) -> str:
    readers = ", ".join(f"`{name}`" for name, triggers in declared.items() if group in triggers.settings)
    rows = ((f"`{key}`", f"{'*Secret.* ' * (key in group.secret)}{meaning}") for key, meaning in group.keys)
    head = f"\n## `{group.name}`\n\n{group.purpose} Read by {readers}.\n\n| key | |\n|---|---|\n"
    return head + _table(rows)


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(declared: Mapping[str, Triggers]) -> Iterable[tuple[str, ...]]:
    for name, triggers in declared.items():
        for watch in triggers.watches:
            resource = watch.resource
            kind = f"{resource.kind} ({resource.group})" if resource.group else resource.kind
            yield f"`{name}`", kind, _watched_fields(watch), ", ".join(watch.changes)
        if kinds := triggers.defined_kinds:
            named = " or ".join(f"`*{ending}`" for ending in kinds.endings)
            kind = f"{named}, not of {kinds.without_group}, with a label of Cluster API's contract on the CRD"
            yield f"`{name}`", kind, _watched_fields(kinds.like), ", ".join(kinds.like.changes)
        for subscription in triggers.subscriptions:
            yield f"`{name}`", f"`{subscription.type}`", "", ""


def _watched_fields(watch: Watch) -> str:
    parts = [", ".join(f"`{path}`" for path in watch.fields) if watch.fields else "all"]
    parts += [f"label `{watch.selector}`"] * bool(watch.selector) + ["by reference"] * watch.reference
    parts += ["with its primary object"] * watch.needs_primary + ["not its own new ones"] * bool(watch.creator)
    return "; ".join(parts)
