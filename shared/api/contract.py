"""Determines the kinds that providers define, and their versions, by Cluster API's contracts.

A provider's CRD has a label for each contract that it supports. The label's value names the versions of the kind that
follow the contract, joined by `_` (Cluster API book, "Provider contracts", "API version labels").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared.kube.resources import Object, Resource, dig

CONTRACTS = ("v1beta2", "v1beta1", "v1alpha4", "v1alpha3", "v1alpha2")
"""The contracts that are supported, newest first. Without a label, objects are read in any shape."""

LABEL = "cluster.x-k8s.io/"
"""The prefix of the labels; the name of a contract follows."""

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def contract_version(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the newest supported contract in the labels of a CRD, and the highest version that follows it.

    None if the CRD follows no supported contract.
    """
    for contract in CONTRACTS:
        if versions := [version for version in labels.get(f"{LABEL}{contract}", "").split("_") if version]:
            return contract, max(versions, key=version_order)
    return None


def version_order(version: str) -> tuple[int, int, int]:
    """Returns the sort key of versions as in Kubernetes: GA over beta over alpha, then by number; others come last."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return -1, 0, 0
    return ("alpha", "beta", None).index(found[2]), int(found[1]), int(found[3] or 0)


def provider_kind(crd: Object) -> Resource | None:
    """Returns the namespaced kind that a provider's CRD defines, in the version to read; None for other CRDs.

    The version belongs to the contract. If it is not served, another version is read, which the API server converts.
    """
    found = contract_version(dig(crd, "metadata.labels", {}))
    served = [version["name"] for version in dig(crd, "spec.versions", []) if version.get("served")]
    if found is None or not served or dig(crd, "spec.scope") != "Namespaced":
        return None
    names = dig(crd, "spec.names", {})
    version = found[1] if found[1] in served else max(served, key=version_order)
    return Resource(dig(crd, "spec.group", ""), version, names["kind"], names["plural"])
