"""The values of the Helm chart: the source of values.yaml, its schema, and the table in docs/chart.md."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared import tracing
from shared.api.provider import KINDS, ProviderKind
from shared.settings import GROUPS, Group

from . import eventing, network, profiles, serving, workloads

TEXT = {"type": "string"}
SCALAR = {"type": ["string", "number", "boolean"]}
"""A value that becomes text in a pod or a ConfigMap."""
FLAG = {"type": "boolean"}
MAP = {"type": "object"}
LIST = {"type": "array"}
COUNT = {"type": ["integer", "null"], "minimum": 0}

MODES = {
    "single": "without Knative. One Deployment for functions and forwarder, and a second one for providers",
    "direct": "without Knative. A Deployment for each function, and one for the forwarder",
    "forwarder": "with Knative. The forwarder posts to the Broker, and Triggers call the functions",
    "sources": "with Knative. ApiServerSources, which [lose events](guarantees.md), replace the forwarder",
}
"""The delivery modes."""

_OWN = (
    "CAPI_FUNCTIONS_PROFILES",
    "CAPI_FUNCTIONS_NAMESPACES",
    "CAPI_FUNCTIONS_WATCH_FILTER",
    workloads.METRICS_PORT,
)
"""Variables that other values of the chart set, some of them only in some pods."""

PROFILES = ("all", *("-".join(combination) for combination in profiles.COMBINATIONS))


_EXAMPLES = {
    "core": "cluster-api",
    "bootstrap": "kubeadm",
    "control-plane": "kubeadm",
    "infrastructure": "docker",
    "ipam": "in-cluster",
    "runtimeextension": "nutanix",
    "addon": "helm",
}
"""A name of a provider of each kind."""


@dataclass(frozen=True)
class Value:
    """A value of the chart: its path with dots, its default, and its meaning.

    `rules` is the JSON schema of its type, if the type does not follow from the default.
    """

    path: str
    default: Any
    meaning: str
    rules: Mapping[str, Any] | None = None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the type."""
        return _TYPES[type(self.default)] if self.rules is None else self.rules


_TYPES = {bool: FLAG, str: TEXT, dict: MAP, list: LIST}


def group_key(group: Group) -> str:
    """Returns the key of a group of settings in the values: its name without the prefix."""
    return group.name.removeprefix("capi-functions-")


def values() -> Iterator[Value]:
    """Yields all values in the order of values.yaml."""
    choices = " ".join(f"`{mode}`: {meaning}." for mode, meaning in MODES.items())
    yield Value("mode", "single", f"How events get to the functions. {choices}", {"enum": [*MODES]})
    yield Value(
        "profile",
        "",
        "Which functions run, see [profiles](installation.md#profiles). Default: `addons-providers-kubeconfig` where "
        "the cluster serves the Machines of a Cluster API core, else `all`.",
        {"enum": ["", *PROFILES]},
    )
    yield Value(
        "namespaces",
        [],
        "The namespaces of Clusters. Functions have rights, and watch, only there. Default: all. With `mode: single` "
        "the functions of providers keep their rights in all namespaces. The other modes refuse profiles with "
        "providers, and `mode: sources` refuses namespaces. See [some namespaces](installation.md#some-namespaces).",
        {"type": "array", "items": {**TEXT, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}, "uniqueItems": True},
    )
    yield Value(
        "watchFilter",
        "",
        "Only Clusters and KINDClusters with this value of the label `cluster.x-k8s.io/watch-filter` are reconciled. "
        "Default: all. See [watch filter](installation.md#watch-filter).",
        {**TEXT, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"},
    )
    yield Value(
        "crds.install",
        True,
        "Install and upgrade our CRDs, except CRDs of Cluster API's groups that others have installed. They are "
        "never deleted.",
    )
    yield Value(
        "crds.cluster",
        None,
        "Also install the kinds Cluster and ClusterClass. Default: if the function `cluster` runs and there is no "
        "Cluster API core. `helm install` and `helm upgrade` never replace the CRDs of a core.",
        {"type": ["boolean", "null"]},
    )
    yield Value(
        "admissionPolicies",
        True,
        "Make the API server refuse Clusters and providers that functions would only report as wrong. Needs "
        "Kubernetes 1.30, see [refusals](installation.md#refusals).",
    )
    yield Value(
        "serving.enabled",
        False,
        "Make a Knative Service of each function, which scales to zero, in the modes `forwarder` and `sources`. Needs "
        "Knative Serving, and one of its [features](installation.md#knative-serving) for each of `priorityClassName`, "
        "`nodeSelector`, `tolerations` and `affinity`.",
    )
    yield Value(
        "serving.maxReplicas",
        serving.REPLICAS,
        "The maximum number of replicas of a Knative Service; 0 for no limit.",
        COUNT,
    )
    yield Value("hooks", False, "Run Cluster API's [runtime hooks](hooks.md).")
    yield Value(
        "hooksIssuer",
        "",
        "The issuer of the hooks' certificate: `helm` issues one for ten years, which upgrades keep. Default: "
        "`cert-manager` if the cluster serves its Certificates, else `helm`.",
        {"enum": ["", "cert-manager", "helm"]},
    )
    yield from _of_console()
    yield from _of_image()
    yield from _of_settings()
    yield from _of_pods()
    yield from _of_operation()
    yield from _of_providers()


def _of_console() -> Iterator[Value]:
    host = {**TEXT, "pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}
    yield Value(
        "console.enabled",
        False,
        "Run the [console](console.md#for-several-people), whose pod has no rights: people log in with tokens of the "
        "API server.",
    )
    yield Value(
        "console.hosts",
        [],
        "The host names of its Ingress or Gateway, which must have HTTPS. `kubectl port-forward` needs none.",
        {"type": "array", "items": host, "uniqueItems": True},
    )
    yield Value(
        "console.allowChanges",
        False,
        "Let its pages offer rollbacks, with the rights of the person who has logged in. Default: pages only show.",
    )
    yield Value(
        "console.oidcIssuerURL",
        "",
        "Let people log in at this [OpenID Connect issuer](console.md#login-at-an-issuer), whose ID tokens the API "
        "server accepts.",
        {**TEXT, "pattern": "^(https://.+)?$"},
    )
    yield Value("console.oidcClientID", "", "The console's client at the issuer.")
    yield Value("console.oidcScopes", ["email"], "The scopes beside `openid`.", {"type": "array", "items": TEXT})
    yield Value(
        "console.oidcSecret",
        "",
        "A Secret with the secret of the client in the key `client-secret`. Default: none.",
    )
    yield Value(
        "console.oidcCAConfigMap",
        "",
        "A ConfigMap with the issuer's CA in the key `ca.crt`. Default: the system's.",
    )


def _of_image() -> Iterator[Value]:
    yield Value("image.repository", "capi-functions", "The image, without tag.")
    yield Value("image.tag", "", "Its tag. Default: the version of the chart.")
    yield Value("image.digest", "", "Its digest, instead of the tag.", {**TEXT, "pattern": "^(sha256:[0-9a-f]{64})?$"})
    policies = {"enum": ["", "Always", "IfNotPresent", "Never"]}
    yield Value("image.pullPolicy", "", "When it is pulled. Default: the policy of Kubernetes.", policies)
    yield Value("image.pullSecrets", [], "Secrets of the registry: `[{name: ...}]`.")


def _of_settings() -> Iterator[Value]:
    for group in GROUPS:
        public = {key: SCALAR for key, _ in group.keys if key not in group.secret}
        if group.name == "capi-functions-installation":
            continue  # `profile` sets it
        named = ", ".join(f"`{key}`" for key in public)
        yield Value(
            f"settings.{group_key(group)}",
            {},
            f"{group.purpose} Keys: {named}; see [configuration](configuration.md#{group.name}).",
            {"type": "object", "properties": public, "additionalProperties": False},
        )
    for group in GROUPS:
        if group.secret:
            yield Value(
                f"secrets.{group_key(group)}",
                group.name,
                f"The name of a Secret, if there is one. Its keys take precedence over settings; only it can have "
                f"{', '.join(f'`{key}`' for key, _ in group.keys if key in group.secret)}.",
            )
    yield Value("webIdentity.roleARN", "", "A role for object storage, instead of keys (`AWS_ROLE_ARN`).")
    yield Value("webIdentity.audience", "sts.amazonaws.com", "The audience of the ServiceAccount's token.")
    yield Value("serviceAccountAnnotations", {}, "Annotations of all ServiceAccounts, such as a cloud's role.")


def _of_pods() -> Iterator[Value]:
    one = {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"replicas": COUNT, "resources": MAP},
            "additionalProperties": False,
        },
    }
    yield Value("deployments", {}, "By name of a Deployment: `replicas`, and `resources` of its first container.", one)
    yield Value(
        "replicas",
        None,
        "Replicas of the Deployments of functions. Default: 1, but 2 of `capi-functions` with `mode: single`. Minimum "
        "for Knative Services. Default: 0.",
        COUNT,
    )
    yield from _of_forwarders()
    yield Value("logLevel", "INFO", "The lowest level that is logged.", {"enum": ["DEBUG", "INFO", "WARNING", "ERROR"]})
    yield Value("logFormat", "text", "The format of the log.", {"enum": ["text", "json"]})
    taken = {"enum": sorted({tracing.SECRET, *_OWN}.union(*(group.secret for group in GROUPS)))}
    yield Value(
        "env",
        {},
        "More environment variables of all pods, except secrets and variables that the chart sets by other values.",
        {"type": "object", "propertyNames": {"not": taken}, "additionalProperties": SCALAR},
    )
    yield Value(
        "tracing.endpoint",
        "",
        "The receiver of traces (OTLP over HTTP), such as `http://collector.monitoring:4318`. Default: no traces. See "
        "[traces](operations.md#traces).",
    )
    share = {"type": ["number", "string"], "minimum": 0, "maximum": 1, "pattern": r"^(0?\.[0-9]+|0|1)$"}  # --set: text
    yield Value("tracing.ratio", 1, "The share of traces that are recorded.", share)
    yield Value(
        "tracing.secret",
        "",
        f"The name of a Secret whose key `{tracing.SECRET}` has headers for the receiver, such as a token.",
    )
    yield Value("podAnnotations", {}, "Annotations of all pods.")
    yield Value("priorityClassName", "", "The PriorityClass of all pods.")
    yield Value("nodeSelector", {}, "The node selector of all pods.")
    yield Value("tolerations", [], "The tolerations of all pods.")
    yield Value("affinity", {}, "The affinity of all pods.")
    yield Value(
        "spreadOver",
        ["kubernetes.io/hostname"],
        "Labels of nodes. The replicas of a Deployment are spread over their values, if possible.",
        {"type": "array", "items": TEXT},
    )


def _of_forwarders() -> Iterator[Value]:
    positive = {"type": ["integer", "null"], "minimum": 1}
    scaling = "see [scaling](scaling.md#what-to-do-when-it-grows)"
    yield Value("forwarder.workers", None, f"The deliveries of a forwarder at a time, {scaling}. Default: 8.", positive)
    yield Value("forwarder.rate", None, "The deliveries of a forwarder per second. Default: 500.", positive)
    yield Value("forwarder.resync", None, "Seconds between checks of all objects. Default: 600.", positive)
    yield Value(
        "forwarder.shards",
        1,
        "With `mode: forwarder`: this number of Deployments `forwarder-0`, `forwarder-1`, ..., each for a part of the "
        "namespaces. `deployments.forwarder` is for each of them.",
        {"type": "integer", "minimum": 1},
    )
    yield Value(
        "forwarder.resources", {}, "The resources of each container `forwarder`, also in the pods of `mode: single`."
    )


def _of_operation() -> Iterator[Value]:
    yield Value(
        "podDisruptionBudgets", True, "One for each Deployment with several replicas. It allows one missing pod."
    )
    yield Value(
        "broker.class", "", "The class of Knative's Broker, such as `Kafka`. Default: the class of the cluster."
    )
    yield Value("broker.config", {}, "The object that configures it: `{apiVersion, kind, name, namespace}`.")
    yield Value(
        "broker.delivery",
        {},
        "Changes of its `spec.delivery`: `retry`, `timeout`, another `deadLetterSink`, or `retryAfterMax`, which "
        "needs the feature `delivery-retryafter` of Knative Eventing.",
    )
    yield Value(
        "broker.ordered", False, "With the class `Kafka`: deliver the events about one object one after the other."
    )
    yield Value(
        "broker.jetStream",
        eventing.JETSTREAM,
        "With the class `NatsJetStreamBroker`: its stream and its filter. A stream that exists keeps its settings. See "
        "[durable brokers](installation.md#durable-brokers).",
    )
    yield Value(
        "eventPolicy",
        False,
        "An EventPolicy that admits only senders of the namespace. Needs Knative's `authentication-oidc`.",
    )
    yield Value("networkPolicy.enabled", True, "Restrict the senders of requests to the pods.")
    yield Value(
        "networkPolicy.egress",
        False,
        "Restrict also the connections of the pods of functions and forwarders to names (port 53), pods of their own "
        "namespace and of the Broker, and `egressPorts` of any address. See [egress](installation.md#egress).",
    )
    port = {"type": "integer", "minimum": 1, "maximum": 65535}
    yield Value(
        "networkPolicy.egressPorts",
        [*network.EGRESS],
        "These ports. Add the ports of workload API servers, proxies, registries and object stores.",
        {"type": "array", "items": port},
    )
    yield Value("networkPolicy.brokers", "knative-eventing", "The namespace from which Knative's brokers deliver.")
    yield Value(
        "networkPolicy.core", "capi-system", "The namespace of Cluster API's core controller, which calls the hooks."
    )
    yield Value("networkPolicy.prometheus", "monitoring", "The namespace of Prometheus.")
    yield Value("networkPolicy.serving", network.SERVING, "The namespace of Knative Serving.")
    yield Value("networkPolicy.gateway", network.GATEWAY, "The namespace of Knative Serving's gateway.")
    yield Value(
        "serviceMonitor.enabled", False, "A ServiceMonitor of the Prometheus Operator, with `serving` a PodMonitor."
    )
    yield Value("serviceMonitor.labels", {}, "Its labels.")
    yield Value("serviceMonitor.interval", "30s", "The interval of the requests.")
    yield Value("prometheusRule.enabled", False, "Alerts, as a PrometheusRule of the Prometheus Operator.")
    yield Value("prometheusRule.labels", {}, "Its labels.")
    yield Value("dashboard.enabled", False, "A dashboard, as a ConfigMap for Grafana's sidecar.")
    yield Value("dashboard.labels", {"grafana_dashboard": "1"}, "The labels that the sidecar looks for.")


def _of_providers() -> Iterator[Value]:
    one = {"type": ["object", "null"], "properties": {"namespace": TEXT, "version": TEXT, "createNamespace": FLAG}}
    for kind in KINDS:
        yield Value(
            provider_key(kind),
            {},
            f"Creates objects of the kind {kind.kind} by name, such as "
            f"`{{{_EXAMPLES[kind.type_name]}: {{version: ...}}}}`: `namespace`, `version`, `createNamespace` (default "
            "true) and any other field of "
            "[`spec`](providers.md#fields). See [providers](installation.md#providers).",
            {"type": "object", "additionalProperties": one},
        )
    yield Value("fetchConfig", {}, "`spec.fetchConfig` of providers, by name.")
    yield Value(
        "configSecret",
        {},
        "`spec.configSecret` of all providers.",
        {"type": "object", "properties": {"name": TEXT, "namespace": TEXT}, "additionalProperties": False},
    )
    yield Value("manager.featureGates", {}, "`spec.manager.featureGates` of providers, by name.")


def provider_key(kind: ProviderKind) -> str:
    """Returns the key of the providers of a kind in the values, as in Cluster API Operator's chart."""
    first, *rest = kind.prefix.split("-")
    return first + "".join(map(str.capitalize, rest))


def values_yaml() -> str:
    """Returns the text of values.yaml, without its first line: all values with their defaults and meanings."""
    lines: list[str] = []
    opened = ""
    for value in values():
        outer, _, name = value.path.rpartition(".")
        if outer and outer != opened:
            lines.append(f"{outer}:")
        opened = outer
        indent = "  " if outer else ""
        meaning = re.sub(r"\[([^][]+)\]\([^()]+\)", r"\1", value.meaning)  # without the targets of links
        prefix = f"{indent}# "
        lines += textwrap.wrap(meaning, 100, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)
        lines.append(f"{indent}{name}: {json.dumps(value.default)}")
    return "\n".join(lines) + "\n"


def schema() -> dict[str, Any]:
    """Returns the JSON schema of the values."""
    result: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"global": {}},
        "additionalProperties": False,
    }
    for value in values():
        outer, _, name = value.path.rpartition(".")
        place = result["properties"]
        if outer:
            inner = {"type": "object", "properties": {}, "additionalProperties": False}
            place = place.setdefault(outer, inner)["properties"]
        place[name] = {"description": value.meaning, "default": value.default, **value.schema}
    return result


def table() -> Iterator[tuple[str, str, str]]:
    """Yields path, default and meaning of each value, for the docs."""
    for value in values():
        default = f"`{json.dumps(value.default)}`" if value.default not in ("", {}, [], None) else ""
        yield f"`{value.path}`", default, value.meaning
