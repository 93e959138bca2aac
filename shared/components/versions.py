"""Versions of providers: the latest of several, and the versions that may follow a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shared.semver import try_parse

from .errors import ComponentsError
from .metadata import ProviderMetadata

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
