"""Which version a provider would go to next, by its source, or by what was brought along where that does not answer."""

from __future__ import annotations

from typing import NamedTuple

from shared.api import provider as contract
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components import versions
from shared.components.errors import ComponentsError
from shared.components.repositories import Repository, config_maps, oci, repository
from shared.components.repositories.oci import OciRepository
from shared.kube import Object, dig, key_of
from shared.providers.inputs import Inputs
from shared.providers.selectors import as_text
from shared.releases.registry import Registry
from shared.releases.sources import SourceError

from ..failures import Failure

_HINT = "name a version with --version"


class Next(NamedTuple):
    version: str
    note: str = ""


def source_of(provider: Object, read: Inputs, *, local: bool = False) -> Repository:
    """Raises `ComponentsError`."""
    selector = as_text(dig(provider, "spec.fetchConfig.selector", {}))
    return repository(provider, read.variables, read.config_maps, selector, local=local)


def following(clients: Clients, provider: Object, read: Inputs) -> Next:
    """What is asked for and not installed yet, else the newest there is; never one before the present one.

    Raises `Failure`.
    """
    asked, installed = contract.version_of(provider), contract.installed_version(provider)
    if asked and asked != installed:
        return Next(asked, "this version is asked for already")
    newest = _newest(clients, provider, read)
    if not installed:
        return newest
    before, after = versions.try_parse(installed), versions.try_parse(newest.version)
    if before is None or after is None or after > before:
        return newest
    told = "it is the newest" if after == before else f"the newest of its source is {newest.version}"
    return Next(installed, "; ".join(filter(None, (told, newest.note))))


def _newest(clients: Clients, provider: Object, read: Inputs) -> Next:
    try:
        source = source_of(provider, read)
        if isinstance(source, OciRepository) and not oci.parse(source.url).tag:
            return _tagged(source)
        return Next(source.default_version())
    except (SourceError, ComponentsError) as error:
        found = _brought(clients, provider)
        if not found:
            raise Failure(f"{error}; {_HINT}") from error
        return Next(_highest(found), f"newest of the ConfigMaps in its namespace, since its source fails: {error}")


def _tagged(source: OciRepository) -> Next:
    reference = oci.parse(source.url)
    if reference.digest:
        raise Failure(f"OCI URL {source.url} names one artifact by its digest; {_HINT}")
    with Registry(reference.host, reference.repository, source.access, reference.plain) as registry:
        found = [tag for tag in registry.tags() if versions.try_parse(tag)]
    if not found:
        raise ComponentsError(f"OCI repository {source.url} has no tag that is a version")
    return Next(_highest(found))


def _brought(clients: Clients, provider: Object) -> list[str]:
    """The versions in ConfigMaps with the labels of a download."""
    selector = ",".join(f"{name}={value}" for name, value in contract.download_labels(provider).items())
    found = []
    for config_map in clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector):
        try:
            found.append(config_maps.version_of(config_map))
        except ComponentsError:
            continue
    return found


def _highest(found: list[str]) -> str:
    """A release before any pre-release."""
    return max(found, key=lambda text: (not versions.parse(text).prerelease, versions.parse(text)))
