"""How a function runs in a cluster: a Deployment of the one image and a Service in front of it.

Plain objects rather than Knative Serving, so that Eventing is all that has to be there; either can be the subscriber
of a Trigger.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object

PORT = 8080
IMAGE = "capi-functions"
NAME = "app.kubernetes.io/name"
PART_OF = ("app.kubernetes.io/part-of", "capi-functions")
"""The label of everything that runs functions."""

SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT), "prometheus.io/path": "/metrics"}
"""What a Prometheus that goes by annotations looks for."""

SETTINGS = {
    "release_assets": ("capi-functions-storage", "capi-functions-releases"),
    "release_prune": ("capi-functions-storage",),
    "addon_apply": ("capi-functions-storage",),
    "addon_cleanup": ("capi-functions-hooks",),
    "cluster_stack": ("capi-functions-releases",),
    "cluster_stack_release": ("capi-functions-storage",),
    "provider_preflight": ("capi-functions-providers",),
    "provider_fetch": ("capi-functions-storage", "capi-functions-providers"),
    "provider_install": ("capi-functions-storage", "capi-functions-providers"),
}
"""Who needs settings from outside: each name is a ConfigMap and a Secret, both optional. `-storage` holds the S3
settings (S3_ENDPOINT_URL, CAPI_FUNCTIONS_BUCKET, AWS_*), `-releases` where releases come from (RELEASE_SOURCE),
`-providers` where providers do (GITHUB_TOKEN, GITHUB_URL, GITHUB_API_URL; its key clusterctl.yaml is a file) and
`-hooks` how long hooks wait (HOOK_UPGRADE_SECONDS, HOOK_DELETE_SECONDS)."""

CONFIGURATION = ("capi-functions-providers", "/config", "clusterctl.yaml")
"""The ConfigMap whose key of this name is mounted there, where `shared.components.catalog` looks for it."""


def name_of(function: str) -> str:
    """Of its objects."""
    return function.replace("_", "-")


def labels(name: str) -> dict[str, str]:
    return dict([(NAME, name), PART_OF])


def deployment(function: str, name: str, namespace: str) -> Object:
    """Any number of replicas may run; one is enough to start with."""
    container: Object = {
        "name": "function",
        "image": IMAGE,
        "command": ["functions-framework"],
        "args": [f"--source=functions/{function}/main.py", f"--target={function}", f"--port={PORT}"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a volume of the pod's own
    }
    if settings := SETTINGS.get(function):
        container["envFrom"] = env_from(settings)
    pod: Object = {
        "serviceAccountName": name,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    config_map, place, key = CONFIGURATION
    if config_map in SETTINGS.get(function, ()):
        container["volumeMounts"].append({"name": "config", "mountPath": place, "readOnly": True})
        source = {"name": config_map, "optional": True, "items": [{"key": key, "path": key}]}
        pod["volumes"].append({"name": "config", "configMap": source})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": {"labels": labels(name), "annotations": SCRAPED}, "spec": pod},
        },
    }


def env_from(names: Iterable[str]) -> list[Object]:
    return [{kind: {"name": name, "optional": True}} for name in names for kind in ("configMapRef", "secretRef")]


def service(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {"selector": labels(name), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
