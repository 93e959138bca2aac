"""Chooses the next version of a provider: from its source, or from ConfigMaps if the source does not answer."""

from __future__ import annotations

from typing import NamedTuple

from shared import semver
from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components.errors import ComponentsError
from shared.components.repositories import config_maps, oci
from shared.components.repositories.oci import OciRepository
from shared.download import Listing, SourceError
from shared.download.registry import Registry
from shared.kube import Object, dig, key_of
from shared.providers.inputs import Inputs
from shared.providers.source_resolution import repository_of

from ..failure import Failure

_HINT = "give a version with --version"


class NextVersion(NamedTuple):
    """A version, and a note for the user about its choice."""

    version: str
    note: str = ""


class _Newest(NamedTuple):
    """The newest version and where it was found; `failure` is why the source gave no list of versions."""

    version: str
    place: str = "its source"
    failure: str = ""

    @property
    def because(self) -> str:
        return f"; {self.failure}" if self.failure else ""


def next_version(clients: Clients, provider: Object, read: Inputs) -> NextVersion:
    """Returns the version in the spec if it is not installed yet, else the newest one; never an older one.

    Raises:
        Failure: Neither the source nor ConfigMaps have a version.
    """
    requested, installed = provider_api.spec_version(provider), provider_api.installed_version(provider)
    if requested and requested != installed:
        return NextVersion(requested, "spec.version has this version already")
    newest = _newest(clients, provider, read)
    before, after = semver.try_parse(installed), semver.try_parse(newest.version)
    newest_text = f"the newest of {newest.place}"
    if before is None or after is None or after > before:
        return NextVersion(newest.version, newest_text + newest.because if newest.failure else "")
    if after == before:
        return NextVersion(installed, f"it is {newest_text}{newest.because}" if newest.failure else "it is the newest")
    return NextVersion(installed, f"it stays at {installed}, because {newest_text} is {newest.version}{newest.because}")


def _newest(clients: Clients, provider: Object, read: Inputs) -> _Newest:
    try:
        source = repository_of(provider, read)
        if isinstance(source, OciRepository) and not oci.parse(source.url).tag:
            return _Newest(_tagged(source))
        return _or_config_maps(clients, provider, source.default_version())
    except (SourceError, ComponentsError) as error:
        found = config_map_versions(clients, provider)
        if not found:
            raise Failure(f"{error}; {_HINT}") from error
        # The plan has chosen a version, so the advice to set spec.version is left out.
        failure = f"its source has no list of versions: {str(error).partition('; set spec.version')[0]}"
        return _Newest(_highest(found), f"the ConfigMaps in its namespace ({', '.join(found)})", failure)


def _or_config_maps(clients: Clients, provider: Object, version: str) -> _Newest:
    """Returns the newest version of the source and of ConfigMaps, which functions use before the catalog."""
    found = [] if dig(provider, "spec.fetchConfig") else config_map_versions(clients, provider)
    newest = _highest([version, *found]) if semver.try_parse(version) else version
    if newest == version:
        return _Newest(version)
    return _Newest(newest, f"the ConfigMaps in its namespace ({', '.join(found)})", f"its newest release is {version}")


def _tagged(source: OciRepository) -> str:
    reference = oci.parse(source.url)
    if reference.digest:
        raise Failure(f"OCI URL {source.url} names one artifact by its digest; {_HINT}")
    with Registry(reference.host, reference.repository, source.access, reference.plain) as registry:
        tags = registry.tags()
    if isinstance(tags, Listing) and tags.problem:
        raise Failure(f"{tags.problem}; {_HINT}")
    found = [tag for tag in tags if semver.try_parse(tag)]
    if not found:
        raise ComponentsError(f"OCI repository {source.url} has no tag that is a version")
    return _highest(found)


def config_map_versions(clients: Clients, provider: Object) -> list[str]:
    """Returns the versions in ConfigMaps with the labels of a download, in ascending order."""
    selector = ",".join(f"{name}={value}" for name, value in provider_api.download_labels(provider).items())
    found = []
    for config_map in clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector):
        try:
            found.append(config_maps.version_of(config_map))
        except ComponentsError:
            continue
    return sorted(found, key=semver.parse)


def _highest(found: list[str]) -> str:
    """Returns the highest version; a pre-release only if there is no release."""
    return max(found, key=lambda text: (not semver.parse(text).prerelease, semver.parse(text)))
