"""Formats the releases for a ClusterStack's status."""

from __future__ import annotations

from shared.api.conditions import get_condition, is_true
from shared.kube import Object, deleting, dig, key_of
from shared.releases.missing_assets import DOWNLOADED
from shared.releases.naming import ReleaseName

from .observe import usable
from .selection import newest_per_channel, sort_tags


def usable_releases_status(releases: list[Object]) -> Object:
    """Returns `status.latestRelease` and `status.usableVersions`."""
    kubernetes = {
        key_of(release).name: dig(release, "status.kubernetesVersion", "-") for release in releases if usable(release)
    }
    names = [ReleaseName.parse(tag) for tag in sort_tags(kubernetes)]
    latest = ", ".join(f"{name.class_name} | {kubernetes[name.tag]}" for name in newest_per_channel(names))
    return {"latestRelease": latest, "usableVersions": ", ".join(name.version.dotted for name in names)}


def summary_line(tag: str, release: Object | None) -> Object:
    """Returns the entry of `status.summary` for a release; None if it does not exist yet."""
    conditions = dig(release, "status.conditions", [])
    ready = dig(release, "status.ready") is True
    line: Object = {"name": ReleaseName.parse(tag).version.tag, "ready": ready, "phase": _phase(ready, conditions)}
    summary = get_condition(conditions, "Ready") or {}
    message = summary.get("message") if summary.get("status") == "False" else ""
    if release is not None and deleting(release):
        message = f"being deleted: {message}" if message else "being deleted"
    return {**line, "message": message} if message else line


def _phase(ready: bool, conditions: list[Object]) -> str:
    if ready:
        return "done"
    if is_true(conditions, "ProviderClusterStackReleaseReady"):
        return "applying objects"
    if is_true(conditions, DOWNLOADED):
        return "provider-specific work"
    return "downloading release assets" if get_condition(conditions, DOWNLOADED) else ""
