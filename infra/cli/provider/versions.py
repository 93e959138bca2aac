"""Which version a provider would go to next, by its source, or by what was brought along where that does not answer."""

from __future__ import annotations

from typing import NamedTuple

from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components import versions
from shared.components.errors import ComponentsError
from shared.components.repositories import config_maps, oci
from shared.components.repositories.oci import OciRepository
from shared.download import SourceError
from shared.download.registry import Registry
from shared.kube import Object, key_of
from shared.providers.inputs import Inputs
from shared.providers.source_resolution import repository_of

from ..failures import Failure

_HINT = "name a version with --version"


class Next(NamedTuple):
    version: str
    note: str = ""


class _Newest(NamedTuple):
    """`failure` is why it is not of the source."""

    version: str
    place: str = "its source"
    failure: str = ""

    @property
    def because(self) -> str:
        return f"; its source gives no list: {self.failure}" if self.failure else ""


def following(clients: Clients, provider: Object, read: Inputs) -> Next:
    """What is asked for and not installed yet, else the newest there is; never one before the present one.

    Raises `Failure`.
    """
    asked, installed = provider_api.spec_version(provider), provider_api.installed_version(provider)
    if asked and asked != installed:
        return Next(asked, "this version is asked for already")
    newest = _newest(clients, provider, read)
    before, after = versions.try_parse(installed), versions.try_parse(newest.version)
    told = f"the newest of {newest.place}"
    if before is None or after is None or after > before:
        return Next(newest.version, told + newest.because if newest.failure else "")
    if after == before:
        return Next(installed, f"it is {told}{newest.because}" if newest.failure else "it is the newest")
    return Next(installed, f"it stays at {installed}, since {told} is {newest.version}{newest.because}")


def _newest(clients: Clients, provider: Object, read: Inputs) -> _Newest:
    try:
        source = repository_of(provider, read)
        if isinstance(source, OciRepository) and not oci.parse(source.url).tag:
            return _Newest(_tagged(source))
        return _Newest(source.default_version())
    except (SourceError, ComponentsError) as error:
        found = brought(clients, provider)
        if not found:
            raise Failure(f"{error}; {_HINT}") from error
        # What else the message advises is done already, or about to be.
        failure = str(error).partition("; set spec.version")[0]
        return _Newest(_highest(found), f"the ConfigMaps in its namespace ({', '.join(found)})", failure)


def _tagged(source: OciRepository) -> str:
    reference = oci.parse(source.url)
    if reference.digest:
        raise Failure(f"OCI URL {source.url} names one artifact by its digest; {_HINT}")
    with Registry(reference.host, reference.repository, source.access, reference.plain) as registry:
        found = [tag for tag in registry.tags() if versions.try_parse(tag)]
    if not found:
        raise ComponentsError(f"OCI repository {source.url} has no tag that is a version")
    return _highest(found)


def brought(clients: Clients, provider: Object) -> list[str]:
    """The versions in ConfigMaps with the labels of a download, ascending."""
    selector = ",".join(f"{name}={value}" for name, value in provider_api.download_labels(provider).items())
    found = []
    for config_map in clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector):
        try:
            found.append(config_maps.version_of(config_map))
        except ComponentsError:
            continue
    return sorted(found, key=versions.parse)


def _highest(found: list[str]) -> str:
    """A release before any pre-release."""
    return max(found, key=lambda text: (not versions.parse(text).prerelease, versions.parse(text)))
