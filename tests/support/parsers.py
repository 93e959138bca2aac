"""The parsers of outside input: each takes bytes, and returns or raises a declared error, within limits.

`test_parsers.py` runs each of them on generated input, and refuses a module that parses without being here;
`python -m tests.abuse.fuzz` runs one under a coverage-guided fuzzer.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from functions.helm_release_proxy import values as helm_values
from infra.console import oidc
from infra.operations import deliveries
from shared import bounded_yaml, certificates, event, memory_budget, network, redaction, semver, windows
from shared.addons import secret_record
from shared.addons.first_values import FirstValues
from shared.addons.owner import OWNER
from shared.api import cluster
from shared.api.hooks import HookWait
from shared.applier import diff, fields, inventory
from shared.applier.policy import Policy, PolicyError
from shared.charts import archive, values
from shared.charts.errors import ChartError
from shared.charts.traits import traits_of
from shared.components import bundles, durations, globs, images, json_patch, metadata, objects, patches, substitute
from shared.components.errors import ComponentsError
from shared.components.repositories import addresses, config_maps
from shared.download import SourceError, access, checksums, signatures
from shared.helm_charts import docker_config, fetch, index, versions
from shared.helm_proxies.release_record import (
    RecordError,
    ReleaseRecord,
    chart_of,
    decode,
    encode,
    secret_name,
)
from shared.kube import Unavailable, responses, selectors
from shared.kube.connect import inline_credentials
from shared.kube.loading_rules import KubeconfigError
from shared.manifests.parsing import Manifest, ManifestError
from shared.manifests.parsing import parse as parse_manifests
from shared.releases import manifest, naming, stages
from shared.releases import metadata as release_metadata
from shared.releases.sources import urls
from tests.support import cosign

CORPORA = Path(__file__).parent.parent / "abuse" / "corpora"
"""A folder for each parser, with inputs that once reached new code or failed."""

LONGEST = 256 * 1024
"""Bytes of the longest generated input."""

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Parser:
    """A parser of outside input.

    Attributes:
        name: The parsing function, as `package.module.function`.
        parse: Calls it with bytes from outside.
        errors: What it may raise.
        seeds: Valid inputs, from which generated ones are made.
    """

    name: str
    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = ()
    seeds: tuple[bytes, ...] = ()

    @property
    def module(self) -> str:
        """The module of the parsing function."""
        return self.name.rpartition(".")[0]

    def run(self, data: bytes) -> None:
        """Parses the data. Raises only what the parser does not declare."""
        with suppress(*self.errors):
            self.parse(data)

    def corpus(self) -> list[bytes]:
        """Returns the seeds, and the kept inputs."""
        kept = sorted((CORPORA / self.name).glob("*"))
        return [*self.seeds, *(file.read_bytes() for file in kept)]


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    """Returns a parser of bytes that decodes them first, as texts in Kubernetes objects are."""
    return lambda data: parse(data.decode(errors="replace"))


def _object(parse: Callable[[dict[str, Any]], object]) -> Callable[[bytes], object]:
    """Returns a parser of bytes for a function of a JSON object, such as a Kubernetes object with any content."""

    def parse_object(data: bytes) -> object:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return parse(document) if isinstance(document, dict) else None

    return parse_object


def _secret(**data: str) -> dict[str, Any]:
    """Returns a Secret with base64 texts as data."""
    return {"metadata": {"name": "a", "namespace": "b"}, "type": "Opaque", "data": data}


def _content(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    """Returns a parser of bytes for a function of base64 text: the API server ensures that a Secret has no other."""
    return lambda data: parse(base64.b64encode(data).decode())


def _compressed(data: bytes) -> dict[str, Any]:
    """Returns a ConfigMap with these components, as `provider export` compresses them."""
    metadata = {"name": "v1.0.0", "annotations": {config_maps.COMPRESSED: "true"}}
    binary = {"components": base64.b64encode(data).decode()}
    return {"metadata": metadata, "data": {"metadata": _PROVIDER_METADATA.decode()}, "binaryData": binary}


def _release_record(data: bytes) -> object:
    metadata = {"name": secret_name("a", 1), "namespace": "b"}
    return decode({"metadata": metadata, "data": {"release": base64.b64encode(data).decode()}})


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _archive(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _request(data: bytes) -> object:
    """Parses the data as an HTTP request: lines of headers, an empty line, the body."""
    head, _, body = data.partition(b"\n\n")
    pairs = (line.decode("latin-1").partition(":") for line in head.splitlines())
    return event.from_http({name.strip(): value.strip() for name, _, value in pairs if name.strip()}, body)


def _patched(data: bytes) -> object:
    """Applies the data, as JSON, as a merge patch and as a list of operations."""
    try:
        patch = json.loads(data)
    except (ValueError, RecursionError):
        return None
    document = {"spec": {"containers": [{"name": "a", "args": ["b"]}]}}
    if isinstance(patch, list):
        return json_patch.apply_operations(document, patch, json_patch.Budget())
    return json_patch.merge(document, patch, json_patch.Budget())


def _accessed(obj: Mapping[str, Any]) -> None:
    """Reads each field of a foreign Cluster, control plane or infrastructure object."""
    for read in (
        cluster.class_name,
        cluster.class_namespace,
        cluster.infrastructure_ref,
        cluster.control_plane_ref,
        cluster.is_paused,
        cluster.deleted_at,
        cluster.created_at,
        cluster.endpoint,
        cluster.provisioned,
        cluster.control_plane_initialized,
        cluster.api_endpoint,
        cluster.conditions,
        cluster.desired_replicas,
        cluster.versions,
        cluster.failure,
    ):
        read(obj)
    with suppress(ValueError):  # what it declares
        cluster.failure_domains(obj)


def _managed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object whose fields have a manager."""
    return {"metadata": {"managedFields": [{"fieldsV1": fields}]}, "spec": {"a": [{"name": "b", "c": 1}]}}


def _call(name: str) -> Callable[..., object]:
    """Returns a function by its name. Tests may use the inside of a function folder by name only."""
    module, _, function = name.rpartition(".")
    found: Callable[..., object] = getattr(import_module(module), function)
    return found


_KUBECONFIG = _json(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
        "clusters": [{"name": "b", "cluster": {"server": "https://example.com:6443"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
)
_EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/me",
    "type": "dev.knative.apiserver.resource.update",
    "kind": "Cluster",
    "apiversion": "cluster.x-k8s.io/v1beta2",
    "namespace": "default",
    "name": "demo",
    "data": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "demo"}},
}
_HEADERS = b"\n".join(f"ce-{name}: {value}".encode() for name, value in _EVENT.items() if name != "data")
_YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {b: c}}\ndata:\n  <<: *l\n  d: |\n    e\n"
_MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  b: c\n---\n# nothing\n"
_RELEASE_METADATA = (
    b"apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1\n"
    b"versions: {clusterStack: v1, kubernetes: v1.27.3, components: {clusterAddon: v1}}\n"
)
_PROVIDER_METADATA = (
    b"apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n"
    b"releaseSeries:\n- {major: 1, minor: 14, contract: v1beta2}\n"
)
_STAGES = (
    b"apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1\nclusterStackVersion: docker-ferrol-1-27-v1\naddonStages:\n"
    b"  BeforeClusterUpgrade:\n  - {name: cni, action: apply, waitForReadinessOfWorkloads: true}\n"
)
_CHART = _archive({"a/Chart.yaml": b"name: a\nversion: 1\napiVersion: v2\n", "a/templates/b.yaml": b"{{ .Values.x }}"})
_RECORD = base64.b64decode(encode(ReleaseRecord("a", "b", 1, "deployed", {}, {}, "a: b"), _NOW)["data"]["release"])
_OBJECT = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {
        "name": "a",
        "namespace": "b",
        "uid": "c",
        "annotations": {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "controlPlaneEndpoint": {"host": "a", "port": 6443},
        "topology": {"classRef": {"name": "d"}},
        "replicas": 3,
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "failureDomains": [{"name": "a", "controlPlane": True}],
        "versions": [{"version": "v1.36.0", "replicas": 1}],
        "initialization": {"provisioned": True},
    },
}
_BUDGET = {"patch": '{"spec": {"replicas": 2}}'}
_ENTRY = inventory.entry_of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).dump()

PARSERS = (
    Parser("shared.event.from_json", event.from_json, (event.EventError,), (_json(_EVENT),)),
    Parser(
        "shared.event.from_http",
        _request,
        (event.EventError,),
        (_HEADERS + b"\n\n{}", b"content-type: application/cloudevents+json\n\n" + _json(_EVENT)),
    ),
    Parser(
        "infra.operations.deliveries.parse",
        _text(lambda text: list(deliveries.parse(text.splitlines()))),
        (),
        (b"2026-01-31 12:00:00,123 INFO sweep a -> 204 1ms", b'{"function": "sweep", "status": 204, "seconds": 1}'),
    ),
    Parser(
        "infra.console.oidc.claims",
        _text(oidc.claims),
        (),
        (b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2V4YW1wbGUuY29tIn0.c2ln",),
    ),
    Parser("shared.memory_budget.loads", memory_budget.loads, (ValueError, RecursionError), (_json(_EVENT),)),
    Parser("shared.bounded_yaml.load", bounded_yaml.load, (bounded_yaml.YAMLError,), (_YAML, _KUBECONFIG)),
    Parser(
        "shared.manifests.parsing.parse",
        _text(lambda text: parse_manifests([Manifest("a", text)], default_namespace="default")),
        (ManifestError,),
        (_MANIFEST, _YAML),
    ),
    Parser(
        "shared.download.signatures.names_artifact",
        lambda data: signatures.names_artifact(data, "sha256:0"),
        (),
        (cosign.payload("sha256:0"),),
    ),
    Parser("shared.download.checksums.parse", checksums.parse, (ValueError,), (b"0" * 64 + b"  a\n",)),
    Parser("shared.kube.loading_rules.parse", inline_credentials, (KubeconfigError,), (_KUBECONFIG,)),
    Parser("shared.kube.connect.inline_credentials", inline_credentials, (KubeconfigError,), (_KUBECONFIG,)),
    Parser(
        "shared.kube.responses.parse_object",
        lambda data: responses.parse_object(data, "GET /", written=True),
        (Unavailable,),
        (_json(_OBJECT),),
    ),
    Parser(
        "shared.kube.responses.parse_watch_event",
        lambda data: responses.parse_watch_event(data, "GET /"),
        (Unavailable,),
        (_json({"type": "ADDED", "object": _OBJECT}),),
    ),
    Parser(
        "shared.kube.selectors.parse",
        _text(selectors.parse),
        (ValueError,),
        (b"a=b,c in (d,e),!f", b"x notin (y)"),
    ),
    Parser(
        "shared.addons.secret_record.unpack",
        _text(secret_record.unpack),
        (ValueError,),
        (secret_record.pack([1], 1_000).encode(),),
    ),
    Parser(
        "functions.helm_release_proxy.values.parse",
        _text(lambda text: helm_values.parse(text, "a")),
        (ValueError,),
        (b"a: 1",),
    ),
    Parser("shared.helm_proxies.release_record.decode", _release_record, (RecordError,), (_RECORD,)),
    Parser("shared.helm_proxies.release_record.chart_of", lambda data: chart_of(data, "a"), (ChartError,), (_CHART,)),
    Parser(
        "shared.addons.first_values.FirstValues",
        _object(FirstValues.load),
        (ValueError,),
        (_json(FirstValues().dump()),),
    ),
    Parser("shared.charts.archive.inspect", lambda data: archive.inspect(data, "a"), (ChartError,), (_CHART,)),
    Parser(
        "shared.charts.traits.traits_of",
        lambda data: traits_of({"a/templates/b.yaml": data, "a/Chart.yaml": data}),
        (ChartError,),
        (b"{{ lookup }}", b"kubeVersion: 1"),
    ),
    Parser(
        "shared.charts.values.parse_values",
        _text(lambda text: values.parse_values(text, "a")),
        (ChartError,),
        (b"a: {b: 1}",),
    ),
    Parser(
        "shared.releases.metadata.parse",
        lambda data: release_metadata.parse(data, "docker-ferrol-1-27-v1"),
        (release_metadata.MetadataError,),
        (_RELEASE_METADATA,),
    ),
    Parser(
        "shared.releases.stages.parse",
        lambda data: stages.parse(data, "docker-ferrol-1-27-v1"),
        (stages.StagesError,),
        (_STAGES,),
    ),
    Parser(
        "shared.releases.manifest.decode",
        lambda data: manifest.decode(data, "docker-ferrol-1-27-v1"),
        (),
        (manifest.encode("docker-ferrol-1-27-v1", {}),),
    ),
    Parser(
        "shared.releases.naming.ReleaseName",
        _text(naming.ReleaseName.parse),
        (naming.InvalidName,),
        (b"a-b-1-27-v0-sha.abc",),
    ),
    Parser(
        "shared.releases.sources.urls.from_url",
        _text(lambda text: urls.from_url(text, local=False)),
        (SourceError,),
        (b"https://github.com/a/b", b"oci://a.example/b", b"s3://a/b"),
    ),
    Parser(
        "shared.download.access.from_secret",
        _content(lambda data: access.from_secret(_secret(token=data, ca=data))),
        (SourceError,),
        (b"t",),
    ),
    Parser(
        "shared.network.origin", _text(network.origin), (ValueError,), (b"https://[::1]:6443/a", b"http://a.example")
    ),
    Parser("shared.redaction.redact_url", _text(redaction.redact_url), (), (b"https://u:p@a.example/b?c=d#e",)),
    Parser(
        "shared.components.metadata.parse",
        lambda data: metadata.parse(data, "a"),
        (ComponentsError,),
        (_PROVIDER_METADATA,),
    ),
    Parser("shared.components.objects.parse", _text(objects.parse), (ComponentsError,), (_MANIFEST,)),
    Parser(
        "shared.components.images.parse", _text(images.parse), (ComponentsError,), (b"all: {repository: a.example/b}",)
    ),
    Parser(
        "shared.components.images.override_image",
        _text(lambda text: images.override_image(text, {"all": {"repository": "a.example/b"}}, "a")),
        (ComponentsError,),
        (b"a.example:5000/b/c:v1@sha256:" + b"0" * 64,),
    ),
    Parser(
        "shared.components.patches.apply_patches",
        _text(lambda text: patches.apply_patches([dict(_OBJECT)], {"spec": {"patches": [{"patch": text}]}})),
        (ComponentsError,),
        (_json(_BUDGET), b"- {op: add, path: /metadata/labels, value: {}}"),
    ),
    Parser(
        "shared.components.json_patch.apply_operations",
        _patched,
        (ComponentsError, ValueError),
        (_json([{"op": "copy", "from": "/spec", "path": "/a"}]), _json({"spec": {"containers": None}})),
    ),
    Parser(
        "shared.components.substitute.substitute",
        _text(lambda text: substitute.substitute(text, {"A": "b"})),
        (ComponentsError,),
        (b"${A} ${B:-c} ${A/b/${D:=e}} $$ ${#A} ${A:1:2}",),
    ),
    Parser("shared.semver.parse", _text(semver.parse), (ValueError,), (b"v1.2.3-rc.1+b",)),
    Parser(
        "shared.bounded_yaml.scalars",
        lambda data: list(bounded_yaml.scalars(data)),
        (bounded_yaml.YAMLError,),
        (_YAML, b"a: [{b: &c d}, *c]"),
    ),
    Parser(
        "shared.helm_charts.index.parse_index",
        lambda data: index.parse_index(data, "a"),
        (index.InvalidIndex,),
        (b"apiVersion: v1\nentries:\n  a:\n  - {version: 1.0.0, urls: [b.tgz], digest: c}\n",),
    ),
    Parser(
        "shared.helm_charts.docker_config.login",
        lambda data: docker_config.login(data, "a.example"),
        (docker_config.InvalidConfig, memory_budget.MemoryBusy),
        (b'{"auths": {"https://a.example/v1/": {"auth": "YTpi"}}}',),
    ),
    Parser(
        "shared.helm_charts.fetch.chart_version",
        lambda data: fetch.chart_version(data, "a"),
        (ChartError, memory_budget.MemoryBusy),
        (_archive({"a/Chart.yaml": b"name: a\nversion: 1.0.0\n"}),),
    ),
    Parser(
        "shared.helm_charts.versions.newest",
        _text(lambda text: versions.newest(text, ["1.2.3", text[:200]])),
        (versions.InvalidRange,),
        (b">=1.2, <3 || ~1.2.3-rc.1", b"1.0 - 2.x"),
    ),
    Parser("shared.components.durations.whole_seconds", _text(durations.whole_seconds), (ValueError,), (b"1h2m3.5s",)),
    Parser(
        "shared.windows.opening",
        _text(lambda text: windows.opening([{"schedule": text, "duration": text, "timeZone": text}], _NOW)),
        (),
        (b"*/5 22-23 1,15 JAN-MAR MON", b"1h"),
    ),
    Parser(
        "shared.components.globs.prefix_lengths",
        _text(lambda text: globs.prefix_lengths(text[:2000], text[:2000])),
        (),
        (b"a*[b-c]?",),
    ),
    Parser(
        "shared.components.repositories.addresses.split",
        _text(lambda text: addresses.split(text, "https", "oci")),
        (ComponentsError,),
        (b"https://a.example/b/releases/v1.0.0/c.yaml",),
    ),
    Parser(
        "shared.components.repositories.config_maps.read",
        lambda data: config_maps.read(_compressed(data)),
        (ComponentsError,),
        (gzip.compress(_MANIFEST, mtime=0),),
    ),
    Parser(
        "shared.components.bundles.Bundle", bundles._decode, (), (bundles.Bundle("v1.0.0", "a", "b", "c").encode(),)
    ),
    Parser(
        "shared.applier.fields.resolve",
        _text(lambda text: fields.without(dict(_OBJECT), text)),
        (ValueError,),
        (b'.spec.containers[name="web"].image', b".status.conditions[0].type"),
    ),
    Parser(
        "shared.applier.diff.compare",
        _object(lambda fields: diff.compare(_managed(fields), {"spec": {"a": [{"name": "b"}]}})),
        (),
        (_json({"f:spec": {"f:a": {'k:{"name":"b"}': {".": {}}}}}),),
    ),
    Parser("shared.applier.inventory.load", lambda data: inventory.load(_loaded(data)), (), (_json([_ENTRY]),)),
    Parser(
        "shared.applier.policy.Policy",
        _text(lambda text: Policy.of(OWNER, {"metadata": {"annotations": {"capi-functions.dev/drift-ignore": text}}})),
        (PolicyError,),
        (b"Deployment.apps/a: .spec.replicas",),
    ),
    Parser("shared.api.cluster.conditions", _object(_accessed), (), (_json(_OBJECT),)),
    Parser("shared.api.hooks.HookWait", _object(HookWait.load), (), (_json(_OBJECT),)),
    Parser(
        "shared.certificates.load_certificates",
        certificates.load_certificates,
        (ValueError,),
        (b"-----BEGIN CERTIFICATE-----\n",),
    ),
    Parser("shared.certificates.load_key", certificates.load_key, (ValueError,), (b"-----BEGIN PRIVATE KEY-----\n",)),
    Parser(
        "functions.cluster_hooks.protocol.cluster_of",
        lambda data: _call("functions.cluster_hooks.protocol.cluster_of")("BeforeClusterUpgrade", data),
        (ValueError,),
        (_json({"cluster": _OBJECT}),),
    ),
    Parser(
        "functions.kubeconfig.existing.inspect",
        _content(lambda data: _call("functions.kubeconfig.existing.inspect")(_secret(value=data), _OBJECT)),
        (),
        (_KUBECONFIG,),
    ),
    Parser(
        "functions.kubeconfig.ca.ca_in",
        _content(
            lambda data: _call("functions.kubeconfig.ca.ca_in")(_secret(**{"tls.crt": data, "tls.key": data}), _NOW)
        ),
        (),
        (b"-----BEGIN CERTIFICATE-----\n",),
    ),
    Parser(
        "functions.cluster.probe.failures", _object(_call("functions.cluster.probe.failures")), (), (_json(_OBJECT),)
    ),
)


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
