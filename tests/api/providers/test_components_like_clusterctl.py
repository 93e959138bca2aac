"""Real and odd components render to the objects that clusterctl generates."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.api.provider import BY_KIND
from shared.components.expressions import SubstitutionError
from shared.components.render import generate_components
from shared.components.substitute import substitute
from shared.kube import Object
from tests.support.real_providers import (
    CURRENT,
    DOWNLOADS,
    PREVIOUS,
    PROVIDERS,
    Provider,
    components,
    generate,
    repository,
    substituted,
)

VARIABLES = {
    "EXP_MACHINE_POOL": "false",
    "CAPI_DIAGNOSTICS_ADDRESS": "localhost:8080",
    "CAPI_INSECURE_DIAGNOSTICS": "true",
    "EXP_RUNTIME_SDK": "true",
    "TEXT": "a/b.c",
}
VALUES = {"V": "abcd/a$d", "W": "xAA[a]", "N": "1", "M": "-3", "E": ""}
"""In capitals, as clusterctl looks for them in the environment."""

TEXTS = """
${V} ${ W } $V $$V $$$V $$${V} $$$${V} \\${V} {{ V }}
${#V} ${#E} ${V^} ${V^^} ${W,} ${W,,} ${V,^}
${V:1} ${V:1:2} ${V:9} ${V:1:99} ${V: 1} ${V:x} ${V:1:2:3} ${V:1::2} ${V:${N}} ${V:1:${N}} ${V:${M}} ${V:${M}:2}
${V#a} ${V#*c} ${V##*/} ${V#?} ${V##*} ${V#[a-b]} ${V#[^b]} ${V#[b} ${V#[]} ${V#[]a]} ${V#a]} ${V###a} ${V#${N}}
${V%d} ${V%d*} ${V%%d*} ${V%?} ${V%%*} ${V%[d]} ${V%d\\} ${W%]} ${W%${N}}
${V/a/b} ${V//a/b} ${V//a/} ${V/a/b/c} ${V//a//b} ${V/#a/X} ${V/%d/X} ${V/#a/} ${V/a/${W}} ${V/${N}/x} ${V//\\//-}
${V/a/\\\\} ${V/a/$$x} ${V/$/x} ${V//a}/x} ${V/*/x}
${U=d} ${U:=d} ${U:-d} ${U:?d} ${U:+d} ${E:-d} ${V:=d} ${U:=} ${E:=${V}-${W}} ${U:={}} ${V:={}} ${U:=$$x} ${U:=a$$${V}}
${U:=${T:=x}y} ${U:-3:2} ${U#x}${U/x/y}${U:1}
"""
REFUSED = (
    *("${V-x}", "${V+x}", "${V?x}", "${V/a}", "${V//a}", "${V/a/x${N}}", "${V#}", "${V#a${N}}", "${V:}", "${V:1:}"),
    *("${V:1${N}}", "${V^^^}", "${V^x}", "${V///x}", "${V.x}", "${BA$R}", "${}", "${#}", "${##V}", "${V", "${V:=x"),
)


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("repository"), PREVIOUS, CURRENT)


def plain(obj: Object) -> Object:
    """Without the empty values that Go's types write of themselves: `status`, `resources: {}`, `value: ""`."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: cleaned(item) for name, item in value.items()}
            empty = {name for name, item in kept.items() if item == {} or (name == "value" and item == "")}
            return {name: item for name, item in kept.items() if name not in empty}
        return [cleaned(item) for item in value] if isinstance(value, list) else value

    return {name: cleaned(value) for name, value in obj.items() if name != "status"}


@pytest.mark.parametrize("version", [PREVIOUS, CURRENT])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.label)
def test_rendered_objects_are_those_of_clusterctl(configuration: Path, provider: Provider, version: str) -> None:
    text = (components(version) / DOWNLOADS / version / provider.file).read_text()
    label = BY_KIND[provider.type].label(provider.name)
    ours = generate_components(text, VARIABLES, namespace="elsewhere", label=label)
    printed = generate(configuration, provider, version, "elsewhere", VARIABLES)
    theirs = [document for document in yaml.safe_load_all(printed) if document]
    assert [obj["metadata"]["name"] for obj in ours] == [obj["metadata"]["name"] for obj in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert plain(mine) == plain(other), f"{mine['kind']} {mine['metadata']['name']}"


ODD = Provider("odd", "InfrastructureProvider", "infrastructure-odd", "infrastructure-components.yaml", "", ())
ODD_COMPONENTS = """
# ${TEXT} counts in comments, too
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: c, namespace: own}
spec: {dnsNames: [a.own.svc, a.own.b.own.c, a.from.svc, own.svc]}
---
---
apiVersion: other.io/v1
kind: Certificate
metadata: {name: c, namespace: own}
spec: {dnsNames: [a.own.svc]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: texts, labels: {cluster.x-k8s.io/provider: other, mine: kept}}
data:
  names: "${TEXT^^} ${TEXT#*/} ${TEXT%%.*} ${TEXT/b/$$} ${#TEXT} ${ TEXT } ${UNSET:-x${TEXT}} $${TEXT} $TEXT"
  yes: 1e3
  octal: 0o17
---
apiVersion: v1
kind: Namespace
metadata: {name: from}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: i}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w, annotations: {cert-manager.io/inject-ca-from: from/c}}
webhooks:
- {name: a.x.io, clientConfig: {service: {name: s}}, sideEffects: None, admissionReviewVersions: [v1]}
- {name: b.x.io, clientConfig: {service: {name: s, namespace: q}}, sideEffects: None, admissionReviewVersions: [v1]}
- {name: c.x.io, clientConfig: {url: "https://x"}, sideEffects: None, admissionReviewVersions: [v1]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: r}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: a, namespace: q}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: u}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: s}
---
apiVersion: other.io/v1
kind: Unknown
metadata: {name: u}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      initContainers:
      - {name: i, image: "reg.example:5000/a/foo"}
      containers:
      - {name: a, image: "docker.io/library/nginx:1.2"}
      - {name: b, image: "localhost/foo@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
"""
METADATA = """
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 0, contract: v1beta2}]
"""
IMAGES = {
    "all": {"tag": "v9", "repository": ""},
    "infrastructure-odd": {"repository": "r.io/z/"},
    "infrastructure-odd/foo": {"name": "bar", "tag": ""},
    "infrastructure-other": {"name": "no"},
}


@pytest.mark.parametrize("images", [{}, IMAGES], ids=["as released", "other images"])
def test_objects_of_odd_components_are_those_of_clusterctl(tmp_path: Path, images: Object) -> None:
    release = tmp_path / ODD.label / "v1.0.0"
    release.mkdir(parents=True)
    (release / ODD.file).write_text(ODD_COMPONENTS)
    (release / "metadata.yaml").write_text(METADATA)
    entry = {"name": ODD.name, "type": ODD.type, "url": f"file://{release / ODD.file}"}
    (tmp_path / "clusterctl.yaml").write_text(json.dumps({"providers": [entry], "images": images}))
    values = {**VARIABLES, "images": json.dumps(images)}
    ours = generate_components((release / ODD.file).read_text(), values, namespace="elsewhere", label=ODD.label)
    printed = generate(tmp_path / "clusterctl.yaml", ODD, "v1.0.0", "elsewhere", VARIABLES)
    theirs = [document for document in yaml.safe_load_all(printed) if document]
    assert [plain(obj) for obj in ours] == [plain(obj) for obj in theirs]


def test_substitutions_are_those_of_clusterctl(tmp_path: Path) -> None:
    """In YAML, since clusterctl takes nothing else."""
    text = "text: |" + TEXTS.replace("\n", "\n  ") + "\n"
    ours, theirs = (
        yaml.safe_load(made)["text"] for made in (substitute(text, VALUES), substituted(text, VALUES, tmp_path))
    )
    assert ours.splitlines() == theirs.splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_clusterctl_refuses_the_same_components(tmp_path: Path, text: str) -> None:
    with pytest.raises(SubstitutionError):
        substitute(text, VALUES)
    with pytest.raises(subprocess.CalledProcessError):
        substituted(text, VALUES, tmp_path)
