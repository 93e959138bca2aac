"""Generates `infra/manifests/serving`: functions as Knative Services, which Knative Serving scales to zero.

It is a component of kustomizations, so that it changes `forwarder`, `sources` and the overlays of profiles in
`infra/manifests` alike. The Deployment of each function becomes a Knative Service, its Service goes, and references to
the Service become references to the Knative Service. The chart changes its objects by the same `changes`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import yaml

from shared.kube.resources import Object

from . import hooks, knative, network, workloads
from .eventing import BROKER
from .files import component, kustomization, yaml_text

SERVICE: Object = {"apiVersion": "serving.knative.dev/v1", "kind": "Service"}
"""apiVersion and kind of a Knative Service."""

_FORWARDER = "../forwarder"
_COMPONENT = "component"

REPLICAS = 4
"""The maximum number of replicas of a function. Replicas times threads caps concurrent requests."""

SECONDS = 600
"""The time limit of an answer, the maximum that Serving allows by default. A download takes up to 300 s."""

_WHAT = """
Makes a Knative Service of each function. Add it to the components of a kustomization that has
infra/manifests/forwarder, infra/manifests/sources or an overlay of them with profiles. docs/installation.md says when
that pays.
"""
_NEEDS = "Functions as Knative Services, and the forwarder. Needs Knative Eventing and Knative Serving."


def files() -> dict[str, str]:
    """Returns the content of the generated files, by path below `infra/manifests/serving`."""
    return {
        "kustomization.yaml": overlay("."),
        f"{_COMPONENT}/kustomization.yaml": yaml_text([(_WHAT, component(patches=[*_patches()]))]),
    }


def overlay(serving: str) -> str:
    """Returns the kustomization of the folder `forwarder` beside it with Knative Services.

    `serving` is the path to `infra/manifests/serving`.
    """
    components = [os.path.normpath(f"{serving}/{_COMPONENT}")]
    return yaml_text([(_NEEDS, kustomization([_FORWARDER], components=components))])


def changes() -> Object:
    """Returns the settings of a function's Knative Service: its labels, and fields and annotations of its pods.

    The fields replace fields of the Deployment's pod and container. Serving takes only its own port names, and refuses
    the security context of a pod unless a feature is enabled. It probes a starting container many times a second if the
    readiness probe has no period. Its proxy has the port of metrics, so these stay at the function's own port.
    """
    return {
        "labels": {"networking.knative.dev/visibility": "cluster-local"},
        "annotations": {
            "autoscaling.knative.dev/min-scale": "0",
            "autoscaling.knative.dev/max-scale": str(REPLICAS),
            "prometheus.io/port": str(workloads.PORT),
        },
        "pod": {
            "containerConcurrency": workloads.THREADS,
            "timeoutSeconds": SECONDS,
            "responseStartTimeoutSeconds": SECONDS,
        },
        "container": {
            "ports": [{"name": "http1", "containerPort": workloads.PORT}],
            "readinessProbe": {"httpGet": workloads.READINESS | {"port": workloads.PORT}},
            "livenessProbe": workloads.liveness(workloads.PORT, "HTTP"),
            "securityContext": workloads.UNPRIVILEGED | workloads.USER,
        },
    }


def _patches() -> Iterable[Object]:
    part_of, project = workloads.PART_OF
    others = ", ".join((network.FORWARDER, hooks.NAME))
    functions = {"labelSelector": f"{part_of}={project},{workloads.NAME} notin ({others})"}
    yield knative.removal({"version": "v1", "kind": "Service", **functions})
    yield _patch({"kind": "Deployment", **functions}, _service())
    yield _patch({"kind": "Trigger", **functions}, [_set("/spec/subscriber/ref/apiVersion", SERVICE["apiVersion"])])
    subject = [_set(f"/spec/subject/{field}", value) for field, value in SERVICE.items()]
    yield _patch({"kind": "SinkBinding", **functions}, subject)
    sink = "/spec/delivery/deadLetterSink/ref/apiVersion"
    yield _patch({"kind": BROKER["kind"], "name": BROKER["name"]}, [_set(sink, SERVICE["apiVersion"])])
    rules = [_set("/spec/ingress/-", rule) for rule in network.of_proxies()]
    yield _patch({"kind": "NetworkPolicy", "name": "functions"}, rules)


def _service() -> Iterable[Object]:
    """Yields the operations that turn a Deployment into a Knative Service."""
    changed = changes()
    template = "/spec/template"
    yield from (_set(f"/{field}", value) for field, value in SERVICE.items())
    yield {"op": "remove", "path": "/spec/selector"}
    yield {"op": "remove", "path": f"{template}/spec/securityContext"}
    first = f"{template}/spec/containers/0/env/0"
    yield {"op": "test", "path": f"{first}/name", "value": workloads.METRICS_PORT}
    yield {"op": "remove", "path": first}
    places = {
        "labels": "/metadata/labels",
        "annotations": f"{template}/metadata/annotations",
        "pod": f"{template}/spec",
        "container": f"{template}/spec/containers/0",
    }
    for part, place in places.items():
        for field, value in changed[part].items():
            yield _set(f"{place}/{field.replace('/', '~1')}", value)


def _set(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def _patch(target: Object, operations: Iterable[Object]) -> Object:
    return {"target": target, "patch": yaml.safe_dump([*operations], sort_keys=False)}
