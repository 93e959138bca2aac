"""Generates `infra/manifests/profiles`: overlays of `forwarder`, `sources` and `single` beside it for some profiles.

`serving` is like `forwarder`, with Knative Services.

Kustomizations cannot combine profiles, because the watched kinds of the event sources, and their rights, depend on all
profiles. So each combination has its overlay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import yaml

from shared.kube.resources import Object
from shared.settings import INSTALLATION, NAMESPACE
from shared.triggers import Triggers

from . import forwarder, knative, network, serving, single, sources, workloads
from .files import kustomization, yaml_text

_PARTS = ("addons", "providers", "kubeconfig")
_WITHOUT_CORE = "standalone"
"""Contains `addons` and `kubeconfig`; with `providers` it has all functions of `infra/manifests/forwarder`."""

COMBINATIONS: tuple[tuple[str, ...], ...] = (
    *(some for count in range(1, len(_PARTS) + 1) for some in combinations(_PARTS, count)),
    (_WITHOUT_CORE,),
)

_OF_CORE = {
    "kind": "CustomResourceDefinition",
    "name": r"([a-z]+|clusterresourceset[a-z]*\.addons)\.cluster\.x-k8s\.io",
}
"""The definitions that a Cluster API core brings."""

_SETTING = "The profiles make the sweep and the forwarder leave out the functions of others."


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns content by path below `infra/manifests/profiles`."""
    return {
        f"{'-'.join(wanted)}/{base}/kustomization.yaml": yaml_text([(_SETTING, _overlay(base, declared, wanted))])
        for wanted in COMBINATIONS
        for base in ("forwarder", "sources", "single")
    } | {
        f"{'-'.join(wanted)}/serving/kustomization.yaml": serving.overlay("../../../serving") for wanted in COMBINATIONS
    }


def _overlay(base: str, declared: Mapping[str, Triggers], wanted: Sequence[str]) -> Object:
    every = knative.in_a_cluster(declared)
    chosen = knative.in_a_cluster(declared, wanted)
    left_out = [workloads.name_of(name) for name in every if name not in chosen]
    if base == "single":
        left_out += [part.name for part in single.PARTS if not part.chosen(wanted)]
        patches = [patch for part in single.PARTS if part.chosen(wanted) for patch in _of_part(part, declared, wanted)]
        if _WITHOUT_CORE not in wanted:
            patches.append(knative.removal(_OF_CORE))
    else:
        patches = _of_sources(chosen) if base == "sources" else _of_forwarder(chosen, wanted)
    others = ", ".join(left_out)
    patches.insert(0, knative.removal({"labelSelector": f"{workloads.NAME} in ({others})"}))
    return kustomization([f"../../../{base}"], configMapGenerator=[_setting(wanted)], patches=patches)


def _of_sources(chosen: Mapping[str, Triggers]) -> list[Object]:
    """Returns the patches of the ApiServerSources and of their rights."""
    wanted = {source["metadata"]["name"]: source for source in sources.api_server_sources(chosen)}
    role = knative.replacement({"kind": "ClusterRole", "name": sources.SOURCES}, "/rules", sources.rules(chosen))
    return [
        knative.replacement(target, "/spec/resources", wanted[name]["spec"]["resources"])
        if name in wanted
        else knative.removal(target)
        for name in sources.MODES.values()
        for target in ({"kind": "ApiServerSource", "name": name},)
    ] + [role]


def _of_part(part: single.Part, declared: Mapping[str, Triggers], wanted: Sequence[str]) -> list[Object]:
    """Returns the patches of the rights of a part's forwarder, and of its profiles."""
    rules = forwarder.rules(knative.in_a_cluster(declared, part.chosen(wanted)))
    role = {"kind": "ClusterRole", "name": forwarder.role_of(part.lease)}
    variables = yaml.safe_dump(single.variables(part, wanted), sort_keys=False)
    return [knative.replacement(role, "/rules", rules), {"patch": variables}]


def _of_forwarder(chosen: Mapping[str, Triggers], wanted: Sequence[str]) -> list[Object]:
    """Returns the patches of the forwarder's rights, and of the annotation that restarts it with other profiles."""
    pods = {"kind": "Deployment", "name": network.FORWARDER}
    path = f"/spec/template/metadata/annotations/{forwarder.PROFILES.replace('/', '~1')}"
    return [
        knative.replacement({"kind": "ClusterRole", "name": forwarder.role_of()}, "/rules", forwarder.rules(chosen)),
        knative.replacement(pods, path, ",".join(wanted)),
    ]


def _setting(wanted: Sequence[str]) -> Object:
    return {
        "name": INSTALLATION.name,
        "namespace": NAMESPACE,
        "literals": [f"CAPI_FUNCTIONS_PROFILES={','.join(wanted)}"],
        "options": {"disableNameSuffixHash": True},
    }
