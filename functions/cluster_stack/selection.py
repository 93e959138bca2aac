"""Selects the releases that a ClusterStack should have: pure rules over names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.download import Listing
from shared.kube import dig
from shared.releases.naming import STABLE, InvalidName, ReleaseName, StackVersion

MAX_RELEASES = 50
"""The maximum number of a ClusterStack's releases, besides those in use. A source may offer any number."""


@dataclass(frozen=True)
class Selection:
    """Tags of releases: `desired` must exist, `obsolete` exist and are deleted unless a Cluster uses them.

    `left_out` is the number of releases above `MAX_RELEASES`, which are neither desired nor obsolete.
    """

    desired: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    left_out: int = 0


def select(spec: Mapping[str, Any], owned: Mapping[str, bool], offered: Sequence[str] | None) -> Selection:
    """Selects releases by spec, existing releases (tag -> ready), and the names that the source offers.

    If `offered` is None or a `Listing` with a problem, the names are not all known. Nothing is obsolete then, because
    otherwise the failure of a source would delete a release in preparation.

    At most `MAX_RELEASES` are selected, by priority.
    """
    wanted = {name.tag for name in listed_versions(spec)[0]}
    if auto_subscribes(spec):
        wanted |= {name.tag for name in newest_per_channel(filter_channel(spec, offered or ()))}
    usable = {name.tag for name in newest_per_channel(filter_channel(spec, (tag for tag in owned if owned[tag])))}
    ranked = by_priority(spec, wanted | usable)
    kept, left_out = set(ranked[:MAX_RELEASES]), len(ranked[MAX_RELEASES:])
    desired = sort_tags(wanted & kept)
    if auto_subscribes(spec) and (offered is None or (isinstance(offered, Listing) and offered.problem)):
        return Selection(desired, left_out=left_out)
    return Selection(desired, sort_tags(owned.keys() - kept), left_out)


def by_priority(spec: Mapping[str, Any], tags: Iterable[str]) -> list[str]:
    """Sorts tags: `spec.versions` first, then by the number of the version, the highest first."""
    listed = {name.tag for name in listed_versions(spec)[0]}
    return sorted(tags, key=lambda tag: (tag not in listed, -ReleaseName.parse(tag).version.number, tag))


def auto_subscribes(spec: Mapping[str, Any]) -> bool:
    """Returns whether the newest release of the channel is desired."""
    return spec.get("autoSubscribe") is not False


def listed_versions(spec: Mapping[str, Any]) -> tuple[list[ReleaseName], list[str]]:
    """Returns the releases of `spec.versions`, and the problems of its invalid entries."""
    names, problems = [], []
    for version in spec.get("versions") or ():
        try:
            parsed = StackVersion.parse(version)
            names.append(ReleaseName(spec["provider"], spec["name"], spec["kubernetesVersion"], parsed))
        except InvalidName as error:
            problems.append(str(error))
    return names, problems


def stack_prefix(spec: Mapping[str, Any]) -> str:
    """Returns the prefix of the names of the stack's releases."""
    return "-".join((spec["provider"], spec["name"], spec["kubernetesVersion"].replace(".", "-"), "v"))


def filter_channel(spec: Mapping[str, Any], names: Iterable[str]) -> list[ReleaseName]:
    """Returns the releases of this stack and channel; `custom` stands for every channel but `stable`."""
    stable = spec.get("channel", STABLE) == STABLE
    stack = tuple(dig(spec, field) for field in ("provider", "name", "kubernetesVersion"))
    parsed = (ReleaseName.from_class_name(name) for name in names)
    return [
        name
        for name in parsed
        if name and (name.provider, name.name, name.kubernetes) == stack and (name.version.channel == STABLE) is stable
    ]


def newest_per_channel(names: Iterable[ReleaseName]) -> list[ReleaseName]:
    """Returns the newest release of each channel: versions of different channels cannot be compared."""
    best: dict[str, ReleaseName] = {}
    for name in names:
        channel = name.version.channel
        if channel not in best or best[channel].version < name.version:
            best[channel] = name
    return [best[channel] for channel in sorted(best)]


def sort_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Sorts tags by channel, then version: v2 before v10."""

    def rank(tag: str) -> tuple[Any, ...]:
        name = ReleaseName.parse(tag)
        return name.stack, name.version.channel, name.version

    return tuple(sorted(tags, key=rank))
