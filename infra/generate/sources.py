"""Generates `infra/manifests/sources`: the functions with Knative's ApiServerSources in place of the forwarder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.kube.resources import Object
from shared.triggers import Rule, Triggers, Watch

from . import eventing, rbac
from .files import Document, yaml_text
from .knative import BASE, in_a_cluster, kustomization_with_image

SOURCES = "capi-functions-sources"
"""The account of the ApiServerSources, and its ClusterRole."""

_RESOURCE = """
Events with the whole object, for kinds whose content functions read. One watch per kind for all namespaces. The
permission check is not skipped: the status reports a missing right, and skipping ends the adapter at the end of a
watch.
"""
_REFERENCE = """
Events with the reference of the object only: Secrets are watched without their contents in events.
"""
MODES = {"Resource": "resources", "Reference": "references"}
"""The name of the ApiServerSource of each mode."""

_COMMENTS = {"Resource": _RESOURCE, "Reference": _REFERENCE}
_SOURCE_ROLE = """
The kinds that the adapters watch, including Secrets if a function watches them: an adapter in reference mode still
lists and watches whole objects, and sends references only.
"""


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns the content of the generated files, by file name."""
    name = "sources.yaml"
    return {
        name: yaml_text(_documents(in_a_cluster(declared))),
        "kustomization.yaml": yaml_text([("", kustomization_with_image([BASE, name]))]),
    }


def _documents(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    yield "", rbac.service_account(SOURCES)
    yield _SOURCE_ROLE, rbac.cluster_role(SOURCES, rules(declared))
    yield "", rbac.cluster_role_binding(SOURCES, SOURCES)
    for source in api_server_sources(declared):
        yield _COMMENTS[source["spec"]["mode"]], source


def rules(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the PolicyRules to watch the kinds that start these functions."""
    return rbac.policy_rules(rbac.watch_rules(declared.values()))


def api_server_sources(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the ApiServerSources for these functions: one for objects, and one for references.

    They lack contract-selected kinds, because an adapter ends if a group is not served. The command `sources` adds
    these kinds.
    """
    watches = [watch for triggers in declared.values() for watch in triggers.watches]
    return of(watches)


def role(watches: Sequence[Watch]) -> Object:
    """Returns the ClusterRole of ApiServerSources of these watches."""
    return rbac.cluster_role(
        SOURCES, rbac.policy_rules(Rule(watch.resource.group, (watch.resource.plural,), rbac.READ) for watch in watches)
    )


def of(watches: Sequence[Watch]) -> list[Object]:
    """Returns the ApiServerSources of these watches."""
    split = {mode: [watch for watch in watches if watch.reference == (mode == "Reference")] for mode in MODES}
    return [eventing.api_server_source(name, SOURCES, split[mode], mode) for mode, name in MODES.items() if split[mode]]
