"""Generates admission policies that refuse Clusters and providers that functions would only report as wrong.

The rules come from the functions, in CEL: the names of releases (`shared.releases.naming`), the downgrade of a provider
(`shared.components.versions`), and the values of annotations (`shared.applier.policy`, `shared.providers.annotations`).
A policy sees one object. Rules about several objects, such as two providers of one name, are left to the functions.

An update that leaves the checked fields unchanged is admitted, so that finalizers and labels of older objects can be
changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from shared.api.provider import GROUP as PROVIDERS
from shared.api.provider import KINDS
from shared.api.resources import CLUSTER, KIND_CLUSTER
from shared.applier.policy import CHOICES, PREFIX
from shared.kube.resources import Object
from shared.providers import annotations as provider_annotations
from shared.releases.naming import PATTERN

from . import admission
from .files import Document, kustomization, yaml_text

CLUSTER_POLICY = "capi-functions-clusters"
PROVIDER_POLICY = "capi-functions-providers"
KIND_POLICY = "capi-functions-kind-clusters"

_WHY = {
    CLUSTER_POLICY: "Refuses a Cluster whose Kubernetes version does not fit its cluster stack, another stack, and a "
    "skipped minor version.",
    PROVIDER_POLICY: "Refuses a provider's downgrade to an earlier release series, and values of annotations that are "
    "not known.",
    KIND_POLICY: "Warns whoever creates a KINDCluster, because no function in a cluster reconciles it.",
}
_ANNOTATIONS = {
    **{PREFIX + name: CHOICES[name] for name in ("conflicts", "wait")},
    provider_annotations.CERTIFICATES: provider_annotations.ISSUERS,
    provider_annotations.FORCE_DELETE: ("true", "false"),
    provider_annotations.KEEP_DOWNLOAD: provider_annotations.DOWNLOADS,
}
"""The annotations of providers that have a few values."""


def documents() -> Iterable[Document]:
    """Yields the policies and their bindings."""
    for name, policy, action in (
        (CLUSTER_POLICY, _of_clusters(), "Deny"),
        (PROVIDER_POLICY, _of_providers(), "Deny"),
        (KIND_POLICY, _of_kind_clusters(), "Warn"),
    ):
        yield from admission.policy(name, _WHY[name], policy, action)


def files() -> dict[str, str]:
    """Returns the content of the files of `infra/manifests/admission` by name."""
    return {
        "policies.yaml": yaml_text(documents()),
        "kustomization.yaml": yaml_text([("", kustomization(["policies.yaml"]))]),
    }


def _of_clusters() -> Object:
    release, other = "variables.release", "variables.former"
    return {
        **_matches(CLUSTER.group, ["clusters"]),
        "variables": [
            _variable("class", _class_of("object")),
            _variable("formerClass", f"oldObject == null ? '' : {_class_of('oldObject')}"),
            # Provider, name, major and minor version; empty for classes of no cluster stack.
            _variable("release", _parts("variables.class")),
            _variable("former", _parts("variables.formerClass")),
            _variable("version", _version_of("object")),
            _variable("formerVersion", f"oldObject == null ? '' : {_version_of('oldObject')}"),
            _variable(
                "changed",
                "variables.class != variables.formerClass || variables.version != variables.formerVersion",
            ),
            _variable("upgrade", f"variables.changed && {release}.size() > 3 && {other}.size() > 3"),
        ],
        "validations": [
            _validation(
                f"!variables.changed || {release}.size() < 4 || variables.version == '' || "
                f"variables.version.matches('^v?' + {release}[2] + '[.]' + {release}[3] + '[.]')",
                f"'spec.topology.version is ' + variables.version + ', but ClusterClass ' + variables.class + "
                f"' is for Kubernetes ' + {release}[2] + '.' + {release}[3] + ': change class and version together'",
            ),
            _validation(
                f"!variables.upgrade || ({release}[0] == {other}[0] && {release}[1] == {other}[1])",
                "'ClusterClass ' + variables.class + ' belongs to another cluster stack than ' + "
                "variables.formerClass + ': create another Cluster'",
            ),
            _validation(
                f"!variables.upgrade || {release}[2] != {other}[2] || int({release}[3]) <= int({other}[3]) + 1",
                "'ClusterClass ' + variables.class + ' skips a minor version of Kubernetes after ' + "
                "variables.formerClass + ': upgrade through each minor version'",
            ),
        ],
    }


def _of_providers() -> Object:
    installed, requested = "variables.installed", "variables.requested"
    return {
        **_matches(PROVIDERS, [kind.resource.plural for kind in KINDS]),
        "variables": [
            _variable("annotations", "has(object.metadata.annotations) ? object.metadata.annotations : {}"),
            _variable(
                "formerAnnotations",
                "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}",
            ),
            _variable("version", _spec_version("object")),
            _variable("formerVersion", f"oldObject == null ? '' : {_spec_version('oldObject')}"),
            _variable(
                "installedVersion",
                "oldObject != null && has(oldObject.status) && has(oldObject.status.installedVersion) "
                "? oldObject.status.installedVersion : ''",
            ),
            _variable("requested", _series("variables.version")),
            _variable("installed", _series("variables.installedVersion")),
        ],
        "validations": [
            _validation(
                f"variables.version == variables.formerVersion || {requested}.size() < 2 || {installed}.size() < 2 || "
                f"{requested}[0] > {installed}[0] || "
                f"({requested}[0] == {installed}[0] && {requested}[1] >= {installed}[1])",
                "'Downgrade is not supported from version ' + variables.installedVersion + ' to ' + "
                "variables.version + ': only within its release series may a version go down'",
            ),
            *(_known_values(name, values) for name, values in _ANNOTATIONS.items()),
        ],
    }


def _of_kind_clusters() -> Object:
    message = (
        "no function in this cluster reconciles KINDClusters: `capi-functions run --kind` on a machine with docker, "
        "podman or nerdctl does"
    )
    validation = {"expression": "oldObject != null", "message": message, "reason": "Invalid"}
    return {**_matches(KIND_CLUSTER.group, [KIND_CLUSTER.plural]), "validations": [validation]}


def _known_values(name: str, values: Iterable[str]) -> Object:
    key, allowed = f"'{name}'", json.dumps([*values]).replace('"', "'")
    found = f"variables.annotations[{key}]"
    unchanged = f"{key} in variables.formerAnnotations && {found} == variables.formerAnnotations[{key}]"
    message = f"annotation {name} must be one of {', '.join(values)}"
    expression = f"!({key} in variables.annotations) || {found} in {allowed} || ({unchanged})"
    return {"expression": expression, "message": message, "reason": "Invalid"}


def _class_of(obj: str) -> str:
    """Returns the expression of the ClusterClass in the topology of both versions of the API; '' without one."""
    topology = f"{obj}.spec.topology"
    return (
        f"!has({obj}.spec) || !has({topology}) ? '' : has({topology}.classRef) ? {topology}.classRef.name : "
        f"has({topology}.class) ? {topology}.class : ''"
    )


def _version_of(obj: str) -> str:
    topology = f"{obj}.spec.topology"
    return f"has({obj}.spec) && has({topology}) && has({topology}.version) ? {topology}.version : ''"


def _spec_version(obj: str) -> str:
    return f"has({obj}.spec) && has({obj}.spec.version) ? {obj}.spec.version : ''"


def _parts(name: str) -> str:
    return f"{name}.matches('^(?:{PATTERN})$') ? {name}.split('-') : []"


def _series(version: str) -> str:
    """Returns the expression of major and minor number; an empty list if the text is no version."""
    numbers = f"{version}.replace('v', '', 1).split('.')"
    return f"{version}.matches('^v?[0-9]{{1,9}}[.][0-9]{{1,9}}[.]') ? [int({numbers}[0]), int({numbers}[1])] : []"


def _matches(group: str, plurals: Iterable[str]) -> Object:
    rule = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": [*plurals],
        "operations": ["CREATE", "UPDATE"],
    }
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "not-deleting", "expression": "!has(object.metadata.deletionTimestamp)"}],
    }


def _variable(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


def _validation(expression: str, message: str) -> Object:
    return {"expression": expression, "messageExpression": message, "reason": "Invalid"}
