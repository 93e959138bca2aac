"""Which releases a cluster stack should have: pure rules over names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.kube import dig
from shared.releases.naming import STABLE, InvalidName, ReleaseName, Version
from shared.releases.sources import Listing


@dataclass(frozen=True)
class Selection:
    """Tags: `wanted` are to be there, `superfluous` are there and may go if no Cluster uses them."""

    wanted: tuple[str, ...] = ()
    superfluous: tuple[str, ...] = ()


def select(spec: Mapping[str, Any], owned: Mapping[str, bool], offered: Sequence[str] | None) -> Selection:
    """From a spec, the releases that there are (tag -> ready), and the names that the source offers.

    None for `offered` is not knowing, and a `Listing` with a problem not knowing all: then nothing is superfluous, or a
    source that is down would cost the stack the release that it is just getting.
    """
    wanted = {name.tag for name in explicit(spec)[0]}
    if subscribes(spec):
        wanted |= {name.tag for name in newest(of_channel(spec, offered or ()))}
        if offered is None or (isinstance(offered, Listing) and offered.problem):
            return Selection(in_order(wanted))
    usable = of_channel(spec, (tag for tag, ready in owned.items() if ready))
    keep = wanted | {name.tag for name in newest(usable)}
    return Selection(in_order(wanted), in_order(tag for tag in owned if tag not in keep))


def subscribes(spec: Mapping[str, Any]) -> bool:
    return spec.get("autoSubscribe") is not False


def explicit(spec: Mapping[str, Any]) -> tuple[list[ReleaseName], list[str]]:
    """The releases of `spec.versions`, and what is wrong with the rest."""
    names, problems = [], []
    for version in spec.get("versions") or ():
        try:
            parsed = Version.parse(version)
            names.append(ReleaseName(spec["provider"], spec["name"], spec["kubernetesVersion"], parsed))
        except InvalidName as error:
            problems.append(str(error))
    return names, problems


def of_channel(spec: Mapping[str, Any], names: Iterable[str]) -> list[ReleaseName]:
    """The releases of this stack and channel; `custom` is every channel but the stable one."""
    stable = spec.get("channel", STABLE) == STABLE
    stack = tuple(dig(spec, field) for field in ("provider", "name", "kubernetesVersion"))
    parsed = (ReleaseName.from_class_name(name) for name in names)
    return [
        name
        for name in parsed
        if name and (name.provider, name.name, name.kubernetes) == stack and (name.version.channel == STABLE) is stable
    ]


def newest(names: Iterable[ReleaseName]) -> list[ReleaseName]:
    """The newest of each channel: versions of different channels have no order between them."""
    best: dict[str, ReleaseName] = {}
    for name in names:
        channel = name.version.channel
        if channel not in best or best[channel].version < name.version:
            best[channel] = name
    return [best[channel] for channel in sorted(best)]


def in_order(tags: Iterable[str]) -> tuple[str, ...]:
    """By channel, then version: v2 before v10."""

    def rank(tag: str) -> tuple[Any, ...]:
        name = ReleaseName.parse(tag)
        return name.stack, name.version.channel, name.version

    return tuple(sorted(tags, key=rank))
