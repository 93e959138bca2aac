"""Knative Eventing's manifests of the pinned version, with images of its programs that are made here.

The Go module contains them for its build tool ko, which would put image names in the place of `ko://` and a package.
Left out is what a Broker does not need: autoscalers, JobSink and RequestReply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from infra.local_control_plane.cache import Progress
from infra.local_control_plane.modules import module_of
from infra.node import images

NAMESPACE = "knative-eventing"
PROGRAMS = {
    "controller": "eventing-controller",
    "webhook": "eventing-webhook",
    "mtchannel_broker": "mtchannel_broker",
    "in_memory/channel_controller": "channel_controller",
    "in_memory/channel_dispatcher": "channel_dispatcher",
    "broker/ingress": "ingress",
    "broker/filter": "filter",
    "apiserver_receive_adapter": "apiserver_receive_adapter",
    "mtping": "mtping",
}
"""The executables by the packages of their commands."""

_MODULE = "knative.dev/eventing"
_FOLDERS = ("core", "channels/in-memory-channel", "brokers/mt-channel-broker")
_UNUSED_KINDS = ("HorizontalPodAutoscaler",)
_UNUSED_WORKLOADS = ("job-sink", "request-reply")
_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Role", "ConfigMap")
_LAST = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_NO_IMAGE = "localhost/none:1"
# ConfigMaps with images that other repositories of Knative ship, for kinds that nothing here uses.
_FOREIGN_IMAGES = {
    "eventing-transformations-images": ("transform-jsonata",),
    "eventing-integrations-images": (
        *("timer-source", "aws-s3-source", "aws-sqs-source", "aws-ddb-streams-source"),
        *("log-sink", "aws-s3-sink", "aws-sqs-sink", "aws-sns-sink"),
    ),
}


def archives(progress: Progress) -> Iterator[Path]:
    """Yields the OCI archives of the programs' images. Raises BinaryNotFound."""
    for program in PROGRAMS.values():
        yield images.of_program(_image(program), program, progress)


def manifests(progress: Progress) -> list[dict[str, Any]]:
    """Returns all objects in the order in which to apply them. Raises SourceNotFound."""
    source = module_of("eventing-controller").source(_MODULE, progress) / "config"
    found = [obj for folder in _FOLDERS for path in sorted((source / folder).rglob("*.yaml")) for obj in _objects(path)]
    for name, keys in _FOREIGN_IMAGES.items():
        metadata = {"name": name, "namespace": NAMESPACE}
        data = dict.fromkeys(keys, _NO_IMAGE)
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return sorted(found, key=_rank)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    text = re.sub(rf"ko://{_MODULE}/cmd/([\w/]+)", lambda match: _image(PROGRAMS.get(match[1], "")), path.read_text())
    for obj in yaml.safe_load_all(text):
        if not obj or obj["kind"] in _UNUSED_KINDS:
            continue
        if obj["kind"] in ("Deployment", "StatefulSet") and obj["metadata"]["name"] in _UNUSED_WORKLOADS:
            continue
        yield obj


def _image(program: str) -> str:
    return f"localhost/{program.replace('_', '-')}:1" if program else _NO_IMAGE


def _rank(obj: dict[str, Any]) -> int:
    kind = obj["kind"]
    if kind in _LAST:
        return len(_FIRST) + 1
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
