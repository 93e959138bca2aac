"""Versions of providers: the latest of several, and the versions that may follow a version.

The installed providers keep compatible contracts of Cluster API. Providers that are not installed, or whose contract is
unknown, block no other. Nor do providers whose upgrade is requested, because their own upgrade checks them, so that
several can leave a contract together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shared import semver
from shared.api import provider as api
from shared.kube.resources import Object, dig, key_of
from shared.semver import try_parse

from .errors import ComponentsError
from .metadata import CONTRACTS, ProviderMetadata

_PROBES = 5
"""The number of newest versions to probe, because a tag may exist before its release."""


def downgrade_refusal(installed: str, requested: str) -> str:
    """Returns why a provider must not be downgraded; empty if it may: within a release series, or upwards."""
    before, after = try_parse(installed), try_parse(requested)
    if before is None or after is None or after.series >= before.series:
        return ""
    return (
        f"Downgrade is not supported from version {installed} to {requested}: "
        f"only within v{before.major}.{before.minor} may a version go down"
    )


def latest(texts: Sequence[str], metadata: Callable[[str], ProviderMetadata | None], contracts: Sequence[str]) -> str:
    """Returns the newest published version with the best contract.

    Args:
        texts: The versions to choose from; texts that are not versions are ignored.
        metadata: Returns the metadata.yaml of a version, None if it is not published. Called for few versions.
        contracts: The supported contracts, the best first.

    Raises:
        ComponentsError: None of the newest versions is published.
    """
    newest = _newest(texts, metadata)
    found_metadata = metadata(newest)
    known_series = found_metadata.series if found_metadata else ()
    for contract in contracts:
        series = {(one.major, one.minor) for one in known_series if one.contract == contract}
        keeping = [text for text in texts if (found := try_parse(text)) and found.series in series]
        if keeping:
            return newest if newest in keeping else _newest(keeping, metadata)
    return newest


def _newest(texts: Iterable[str], metadata: Callable[[str], ProviderMetadata | None]) -> str:
    """Returns the newest published version; releases come before pre-releases."""
    known = [(found, text) for text in texts if (found := try_parse(text))]
    known.sort(key=lambda entry: (not entry[0].prerelease, entry[0]), reverse=True)
    for _, text in known[:_PROBES]:
        if metadata(text) is not None:
            return text
    tried = ", ".join(text for _, text in known[:_PROBES]) or "no version at all"
    raise ComponentsError(f"no published version was found, tried {tried}; set spec.version")


COMPATIBLE = {"v1beta2": ("v1beta2", "v1beta1"), "v1beta1": ("v1beta1",)}
"""The contracts that other providers may have, by the contract of the core provider."""

_LOCKSTEP = ("cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm")
_MAX_MINORS, _SINCE = 3, semver.Version(1, 10, 0)


def contract_of(metadata: ProviderMetadata, version: str) -> tuple[str, str]:
    """Returns the contract of a version, and why the version cannot be used (empty if it can)."""
    parsed = semver.parse(version)
    contract = metadata.contract(*parsed.series)
    if not contract:
        return "", f"version {version} does not match any release series of its metadata.yaml"
    if contract not in CONTRACTS:
        return contract, f"version {version} is of contract {contract}, supported are {' and '.join(CONTRACTS)}"
    return contract, ""


def upgrade_refusal(provider: Object, version: str, contract: str, others: Iterable[Mapping[str, Any]]) -> str:
    """Returns why the provider must not be upgraded; empty if it may.

    Args:
        provider: The provider to upgrade.
        version: The version to upgrade to.
        contract: The contract of that version.
        others: The other providers; for a provider other than core, the core provider suffices.
    """
    if message := _skipped_versions(provider, version):
        return message
    others = [other for other in others if _keeps_its_version(other)]
    if api.kind_of(provider).is_core:
        for other in others:
            theirs = dig(other, "status.contract", "")
            if theirs and theirs not in COMPATIBLE.get(contract, ()):
                what = f"{other['kind']} {key_of(other)} is of contract {theirs}"
                return f"{what}, which is not compatible with core of contract {contract}; upgrade it first"
        return ""
    core = next((other for other in others if other["kind"] == api.CORE.kind), None)
    theirs = dig(core, "status.contract", "") if core else ""
    if theirs and contract not in COMPATIBLE.get(theirs, ()):
        return f"version {version} is of contract {contract}, CoreProvider of {theirs}; upgrade the core provider first"
    return ""


def _keeps_its_version(other: Mapping[str, Any]) -> bool:
    """Returns whether the provider is installed and is core, or is installed and no other version is requested."""
    installed = api.installed_version(other)
    return bool(installed) and (api.kind_of(other).is_core or api.spec_version(other) in ("", installed))


def _skipped_versions(provider: Object, version: str) -> str:
    """Returns why the upgrade skips too many versions: core and kubeadm upgrade by three minor versions at most."""
    before, after = semver.try_parse(api.installed_version(provider)), semver.try_parse(version)
    if api.label_of(provider) not in _LOCKSTEP or before is None or after is None or before < _SINCE:
        return ""
    if before.major != after.major or after.minor <= before.minor + _MAX_MINORS:
        return ""
    furthest = f"v{before.major}.{before.minor + _MAX_MINORS}"
    return f"can't skip more than {_MAX_MINORS} versions, from {before} to {after}: go to {furthest} first"
