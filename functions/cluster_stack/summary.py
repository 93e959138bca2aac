"""Formats the releases for a ClusterStack's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api.conditions import abridged, get_condition, is_true
from shared.kube import Object, deleting, dig, key_of
from shared.releases.missing_assets import DOWNLOADED
from shared.releases.naming import ReleaseName

from .observe import usable
from .selection import newest_per_channel, sort_tags

_MAX_LINES = 50
_MAX_VERSIONS = 20
_MAX_MESSAGE = 500
"""The maximum length of a release's message, because the sources of a tenant can make it quote any text."""


def usable_releases_status(releases: list[Object]) -> Object:
    """Returns `status.latestRelease` and `status.usableVersions`."""
    kubernetes = {
        key_of(release).name: dig(release, "status.kubernetesVersion", "-") for release in releases if usable(release)
    }
    names = [ReleaseName.parse(tag) for tag in sort_tags(kubernetes)]
    latest = [f"{name.class_name} | {kubernetes[name.tag]}" for name in newest_per_channel(names)]
    versions = [name.version.dotted for name in names]
    return {
        "latestRelease": abridged(latest, _MAX_VERSIONS, ", "),
        "usableVersions": abridged(versions, _MAX_VERSIONS, ", "),
    }


def summary(tags: Sequence[str], releases: Mapping[str, Object]) -> list[Object]:
    """Returns `status.summary`: a line for each of the first releases, and how many more there are."""
    lines = [summary_line(tag, releases.get(tag)) for tag in tags[:_MAX_LINES]]
    left = len(tags) - len(lines)
    return [*lines, {"name": f"and {left} more", "ready": False, "phase": ""}] if left else lines


def summary_line(tag: str, release: Object | None) -> Object:
    """Returns the entry of `status.summary` for a release; None if it does not exist yet."""
    conditions = dig(release, "status.conditions", [])
    ready = dig(release, "status.ready") is True
    line: Object = {"name": ReleaseName.parse(tag).version.tag, "ready": ready, "phase": _phase(ready, conditions)}
    summary = get_condition(conditions, "Ready") or {}
    message = summary.get("message") if summary.get("status") == "False" else ""
    if release is not None and deleting(release):
        message = f"being deleted: {message}" if message else "being deleted"
    return {**line, "message": message[:_MAX_MESSAGE]} if message else line


def _phase(ready: bool, conditions: list[Object]) -> str:
    if ready:
        return "done"
    if is_true(conditions, "ProviderClusterStackReleaseReady"):
        return "applying objects"
    if is_true(conditions, DOWNLOADED):
        return "provider-specific work"
    return "downloading release assets" if get_condition(conditions, DOWNLOADED) else ""
