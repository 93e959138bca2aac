"""Which versions of providers may stand beside each other: all on one contract, or on one that is compatible to it.

Only what is known counts: a provider that is not installed, or tells no contract, blocks nobody. Nor does one that is
on its way to another version: it is judged when it gets there, so that two can leave a contract together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.api import provider as api
from shared.kube.resources import Object, dig, key_of

from . import versions
from .metadata import CONTRACTS, Metadata

CURRENT = CONTRACTS[0]
COMPATIBLE = {"v1beta2": ("v1beta2", "v1beta1"), "v1beta1": ("v1beta1",)}
"""What may be installed beside a core provider of the contract."""

_LOCKSTEP = ("cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm")
_MOST_MINORS, _SINCE = 3, versions.Version(1, 10, 0)


def of_version(metadata: Metadata, version: str) -> tuple[str, str]:
    """The contract of a version, and why it cannot be used (empty where it can)."""
    wanted = versions.parse(version)
    contract = metadata.contract(*wanted.series)
    if not contract:
        return "", f"version {version} does not match any release series of its metadata.yaml"
    if contract not in CONTRACTS:
        return contract, f"version {version} is of contract {contract}, supported are {' and '.join(CONTRACTS)}"
    return contract, ""


def refusal(provider: Object, version: str, contract: str, others: Iterable[Mapping[str, Any]]) -> str:
    """Why the provider must not be upgraded to a version of this contract; empty where it may.

    `others` are the other providers as they are; only the core provider need be among them unless this is it.
    """
    if message := _skips(provider, version):
        return message
    others = [other for other in others if _stays(other)]
    if api.kind_of(provider).is_core:
        for other in others:
            theirs = dig(other, "status.contract", "")
            if theirs and theirs not in COMPATIBLE.get(contract, ()):
                what = f"{other['kind']} {key_of(other)} is of contract {theirs}"
                return f"{what}, which core of contract {contract} does not go with; upgrade it first"
        return ""
    core = next((other for other in others if other["kind"] == api.CORE.kind), None)
    theirs = dig(core, "status.contract", "") if core else ""
    if theirs and contract not in COMPATIBLE.get(theirs, ()):
        return f"version {version} is of contract {contract}, CoreProvider of {theirs}; upgrade the core provider first"
    return ""


def _stays(other: Mapping[str, Any]) -> bool:
    installed = api.installed_version(other)
    return bool(installed) and (api.kind_of(other).is_core or api.spec_version(other) in ("", installed))


def _skips(provider: Object, version: str) -> str:
    """Core and kubeadm support an upgrade over three minor versions at most."""
    before, after = versions.try_parse(api.installed_version(provider)), versions.try_parse(version)
    if api.label_of(provider) not in _LOCKSTEP or before is None or after is None or before < _SINCE:
        return ""
    if before.major != after.major or after.minor <= before.minor + _MOST_MINORS:
        return ""
    furthest = f"v{before.major}.{before.minor + _MOST_MINORS}"
    return f"can't skip more than {_MOST_MINORS} versions, from {before} to {after}: go to {furthest} first"
