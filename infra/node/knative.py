"""Knative's manifests of the pinned versions, with images of its programs that are made here.

The Go modules contain them for their build tool ko, which would put image names in the place of `ko://` and a package.
It leaves out objects that functions do not need: autoscalers of Knative's own pods, JobSink, RequestReply, cached
images and certificates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.local_control_plane.cache import Progress
from infra.local_control_plane.modules import module_of
from infra.node import images

_UNUSED_KINDS = ("HorizontalPodAutoscaler", "Image", "Certificate")
_UNUSED_WORKLOADS = ("job-sink", "request-reply")
_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Role", "ConfigMap")
_LAST = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_NO_IMAGE = "localhost/none:1"


@dataclass(frozen=True)
class Part:
    """One of the two parts of Knative.

    Attributes:
        namespace: Where it runs.
        module: The Go module of its programs.
        programs: The executables by the packages of their commands.
        folders: The folders with manifests by Go module.
        foreign_images: ConfigMaps with images that other repositories of Knative ship, for kinds that nothing here
            uses: their keys, by name.
    """

    namespace: str
    module: str
    programs: Mapping[str, str]
    folders: Mapping[str, tuple[str, ...]]
    foreign_images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def archives(self, progress: Progress) -> Iterator[Path]:
        """Yields the OCI archives of the programs' images. Raises BinaryNotFound."""
        for program in self.programs.values():
            yield images.of_program(_image(program), program, progress)

    def manifests(self, progress: Progress) -> list[dict[str, Any]]:
        """Returns all objects in the order in which to apply them. Raises SourceNotFound."""
        pinned = module_of(next(iter(self.programs.values())))
        found: list[dict[str, Any]] = []
        for module, folders in self.folders.items():
            config = pinned.source(module, progress) / "config"
            for path in (path for folder in folders for path in sorted((config / folder).rglob("*.yaml"))):
                found += self._objects(path)
        for name, keys in self.foreign_images.items():
            metadata = {"name": name, "namespace": self.namespace}
            data = dict.fromkeys(keys, _NO_IMAGE)
            found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        return sorted(found, key=_rank)

    def _objects(self, path: Path) -> Iterator[dict[str, Any]]:
        def image(match: re.Match[str]) -> str:
            return _image(self.programs.get(match[1], ""))

        for obj in yaml.safe_load_all(re.sub(rf"ko://{self.module}/cmd/([\w/]+)", image, path.read_text())):
            if not obj or obj["kind"] in _UNUSED_KINDS:
                continue
            if obj["kind"] in ("Deployment", "StatefulSet") and obj["metadata"]["name"] in _UNUSED_WORKLOADS:
                continue
            yield obj


EVENTING = Part(
    "knative-eventing",
    "knative.dev/eventing",
    {
        "controller": "eventing-controller",
        "webhook": "eventing-webhook",
        "mtchannel_broker": "mtchannel_broker",
        "in_memory/channel_controller": "channel_controller",
        "in_memory/channel_dispatcher": "channel_dispatcher",
        "broker/ingress": "ingress",
        "broker/filter": "filter",
        "apiserver_receive_adapter": "apiserver_receive_adapter",
        "mtping": "mtping",
    },
    {"knative.dev/eventing": ("core", "channels/in-memory-channel", "brokers/mt-channel-broker")},
    {
        "eventing-transformations-images": ("transform-jsonata",),
        "eventing-integrations-images": (
            *("timer-source", "aws-s3-source", "aws-sqs-source", "aws-ddb-streams-source"),
            *("log-sink", "aws-s3-sink", "aws-sqs-sink", "aws-sns-sink"),
        ),
    },
)
SERVING = Part(
    "knative-serving",
    "knative.dev/serving",
    {
        "controller": "serving-controller",
        "webhook": "serving-webhook",
        "autoscaler": "autoscaler",
        "activator": "activator",
        "queue": "queue",
    },
    {"knative.dev/serving": ("core",), "knative.dev/networking": (".",), "knative.dev/caching": (".",)},
)
"""Without an ingress, which other repositories of Knative ship."""


def _image(program: str) -> str:
    return f"localhost/{program.replace('_', '-')}:1" if program else _NO_IMAGE


def _rank(obj: dict[str, Any]) -> int:
    kind = obj["kind"]
    if kind in _LAST:
        return len(_FIRST) + 1
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
