"""What is known of the wanted version: whence it comes, which it is, and its files where they are in storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.api.provider import KINDS
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components import bundles, versions
from shared.components.bundles import Bundle
from shared.components.errors import ComponentsError
from shared.components.repositories import Repository, config_maps, repository
from shared.kube import Key, Object, deleting, dig, key_of, selectors
from shared.kube.selectors import as_text
from shared.providers import inputs, peers
from shared.providers.inputs import Inputs
from shared.providers.status import checked
from shared.releases.sources import SourceError

KEPT_FROM = "capi-functions.dev/source"
"""On a ConfigMap with a download of ours: the place that it came from."""


@dataclass(frozen=True)
class Observed:
    provider: Object | None
    inputs: Inputs = field(default_factory=Inputs)
    repository: Repository | None = None
    identity: str = ""
    """Of the source, for storage."""
    standby: tuple[Repository, str] | None = None
    """What stands in for a source that does not answer, with its identity."""
    version: str = ""
    """What is asked for, or the source's default."""
    bundle: Bundle | None = None
    problem: ComponentsError | SourceError | None = None
    others: Sequence[Object] = ()
    """Those that an upgrade has to go with: all others for the core provider, the core provider for all others."""


def observe(clients: Clients, _key: Key, provider: Object | None) -> Observed:
    if provider is None or deleting(provider) or cluster_api.is_paused(provider):
        return Observed(provider)
    if not checked(provider):
        return Observed(provider)
    observed = Observed(provider, inputs.read(clients, provider))
    if observed.inputs.problem:
        return observed
    try:
        return _further(clients, observed, provider)
    except (ComponentsError, SourceError) as error:
        return replace(observed, problem=error)


def _further(clients: Clients, observed: Observed, provider: Object) -> Observed:
    source = _repository(provider, observed.inputs)
    version = provider_api.version_of(provider) or source.default_version()
    identity = _identity(provider, source)
    bundle, standby = clients.components.find(identity, version), None
    if bundle is None and (brought := _brought(clients, provider, version, source.place)) is not None:
        theirs = _identity(provider, brought)
        bundle = clients.components.find(theirs, version)
        if bundle is None and _names_source(provider):
            standby = brought, theirs
        else:
            # What was downloaded before, or brought along, needs no way out of the site.
            source, identity = brought, theirs
    observed = replace(observed, repository=source, identity=identity, standby=standby, version=version, bundle=bundle)
    if bundle is None or provider_api.installed_version(provider) in ("", version):
        return observed
    concerned = KINDS if provider_api.kind_of(provider).is_core else (provider_api.CORE,)
    others = [
        other for other in peers.all_of(clients, *concerned) if other["metadata"]["uid"] != provider["metadata"]["uid"]
    ]
    return replace(observed, others=others)


def _identity(provider: Object, source: Repository) -> str:
    namespace, name = key_of(provider)
    return bundles.identity(source.identity, provider["kind"], name, private_to=namespace if source.private else "")


def _repository(provider: Object, read: Inputs) -> Repository:
    selector = as_text(dig(provider, "spec.fetchConfig.selector", {}))
    return repository(provider, read.variables, read.config_maps, selector)


def _names_source(provider: Object) -> bool:
    """Whether it says itself where it comes from: then that is asked first, not what somebody has put beside it."""
    return any(dig(provider, ("spec", "fetchConfig", name)) for name in ("url", "oci"))


def _brought(clients: Clients, provider: Object, version: str, place: str) -> Repository | None:
    """The one ConfigMap with the labels of a download of this version, unless it is of another place."""
    if dig(provider, "spec.fetchConfig.selector") is not None or versions.try_parse(version) is None:
        return None
    labels = provider_api.download_labels(provider, version)
    if not all(map(selectors.is_label_value, labels.values())):
        return None  # such as a version with build metadata: no object can have these labels
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    listed = clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector)
    found = [each for each in listed if dig(each, ("metadata", "annotations", KEPT_FROM)) in (None, place)]
    return config_maps.ConfigMapRepository(found, selector) if len(found) == 1 else None
