"""What is read to install one provider, and the objects that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.api.conditions import is_true
from shared.api.resources import CLUSTERCTL_PROVIDER, SECRET
from shared.applier.connection import ClusterConnection, connect_management
from shared.applier.desired import kinds_defined_by
from shared.applier.inventory import SYNCED, InventoryEntry, entry_of
from shared.applier.live import recheck_readiness
from shared.applier.policy import Policy, PolicyError
from shared.clients import Clients
from shared.components import catalog, certificates
from shared.components.certificates import CERT_MANAGER, Request
from shared.components.errors import ComponentsError
from shared.components.render import render
from shared.components.webhooks import without_webhooks
from shared.kube import Key, Object, deleting, dig
from shared.kube.crds import CRD
from shared.manifests import identity
from shared.providers import inputs
from shared.providers.annotations import issues_own_certificates, omits_webhooks
from shared.providers.fetched_components import FetchedComponents, load_components
from shared.providers.inputs import Inputs
from shared.providers.inventory import inventory_of
from shared.providers.status import PROVIDER_INSTALLED, passed_preflight


@dataclass(frozen=True)
class Observed:
    provider: Object | None
    unchanged: bool = False
    """What the inputs make is in the cluster, and nobody wants another look."""
    inputs: Inputs = field(default_factory=Inputs)
    digest: str = ""
    """The hash of all inputs."""
    known: Sequence[InventoryEntry] = ()
    """What it has brought; of an installation that goes on, as ready as it is now."""
    fetched: FetchedComponents | None = None
    """The components of the version that is asked for; None while they are not in storage."""
    policy: Policy | PolicyError = field(default_factory=Policy)
    rendered: Sequence[Object] | ComponentsError = ()
    management: ClusterConnection | None = None
    requests: Sequence[Request] = ()
    """Certificates that are left to us, since there is no cert-manager."""
    secrets: Mapping[Key, Object | None] = field(default_factory=dict)
    """What these are in; None for one that is not there."""
    crds: Mapping[str, Object] = field(default_factory=dict)
    """Those of its CRDs that are in the cluster, by name, as they are there, unless it has just applied them."""

    @property
    def resumed(self) -> bool:
        """Whether an installation of the very same has begun and is not through.

        After one that was through, objects may have been changed by others.
        """
        begun = dig(self.provider, "status.target.inputs") == self.digest
        return begun and not is_true(dig(self.provider, "status.conditions"), PROVIDER_INSTALLED)

    @property
    def upgrades(self) -> bool:
        provider = self.provider or {}
        return provider_api.installed_version(provider) not in ("", provider_api.spec_version(provider))


def observe(clients: Clients, _key: Key, provider: Object | None, *, resync: bool = False) -> Observed:
    if provider is None or deleting(provider) or cluster_api.is_paused(provider) or not passed_preflight(provider):
        return Observed(provider, known=inventory_of(provider))
    read = inputs.read(clients, provider)
    digest = inputs.inputs_hash(provider, read, catalog.overrides_text())
    observed = Observed(provider, inputs=read, digest=digest, known=inventory_of(provider))
    if not resync and inputs.is_reconciled(provider, digest):
        return replace(observed, unchanged=True)
    components = load_components(clients, provider, read)
    observed = replace(observed, fetched=components)
    if read.problem or components is None:
        return observed
    try:
        observed = replace(observed, policy=Policy.of(provider))
        by_us = issues_own_certificates(provider)
        objects = render(
            components.bundle.components,
            provider=provider,
            values=read.variables,
            additional=read.additional,
        ).objects
        if omits_webhooks(provider):
            objects = without_webhooks(objects)
    except PolicyError as error:
        return replace(observed, policy=error)
    except ComponentsError as error:
        return replace(observed, rendered=error)
    asked = certificates.requests(objects)
    if by_us is None:
        by_us = bool(asked) and not has_cert_manager(clients, observed)
    return _in_cluster(clients, observed, provider, objects, asked if by_us else ())


def _in_cluster(
    clients: Clients, observed: Observed, provider: Object, objects: Sequence[Object], asked: Sequence[Request]
) -> Observed:
    management = _serving(clients, objects if not asked else certificates.with_own(objects, {}))
    secrets = {request.secret: clients.management.find(SECRET, request.secret) for request in asked}
    # Certificates come first; the rollout that needs these is decided on the next look.
    crds = {} if None in secrets.values() else _live_crds(clients, observed, provider, objects)
    known = [*observed.known, *_issued(observed.known, secrets.values())]
    if observed.resumed:
        known = [recheck_readiness(management.cluster, entry) if entry.waiting else entry for entry in known]
    return replace(
        observed, known=known, rendered=objects, management=management, requests=asked, secrets=secrets, crds=crds
    )


def _issued(known: Sequence[InventoryEntry], secrets: Iterable[Object | None]) -> list[InventoryEntry]:
    """Secrets that are there before the rollout which they are for."""
    listed = {entry.identity for entry in known}
    there = [{**secret, "apiVersion": "v1", "kind": SECRET.kind} for secret in secrets if secret is not None]
    return [replace(entry_of(obj), uid=dig(obj, "metadata.uid", "")) for obj in there if identity(obj) not in listed]


def has_cert_manager(clients: Clients, observed: Observed) -> bool:
    """One that comes in the middle of an installation is for the next: what has begun says what it began with."""
    if observed.resumed and observed.known:
        return any(entry.group == CERT_MANAGER for entry in observed.known)
    return clients.discovery.resource(f"{CERT_MANAGER}/v1", "Certificate") is not None


def _live_crds(clients: Clients, observed: Observed, provider: Object, objects: Sequence[Object]) -> dict[str, Object]:
    """Those that are there: on one list by the provider's label, and a look at each of an upgrade that lacks it.

    Also those that a provider of before, or another installer, has left.
    """
    applied = {entry.name for entry in observed.known if entry.kind == CRD.kind and entry.status == SYNCED}
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == CRD.kind]
    if observed.resumed and applied.issuperset(names):
        return {}
    selector = provider_api.selector_of(provider)
    found = {crd["metadata"]["name"]: crd for crd in clients.management.list(CRD, selector=selector)}
    if observed.upgrades:
        for name in set(names) - set(found):
            if (crd := clients.management.find(CRD, Key("", name))) is not None:
                found[name] = crd
    return found


def _serving(clients: Clients, objects: Sequence[Object]) -> ClusterConnection:
    """The management cluster; a kind that it was not known to serve may have come."""
    management, defined = connect_management(clients), kinds_defined_by(objects)
    listed = (CLUSTERCTL_PROVIDER.api_version, CLUSTERCTL_PROVIDER.kind)  # on record there, if there is such a kind
    kinds = {(obj["apiVersion"], obj["kind"]) for obj in objects} | {listed}
    unknown = [kind for kind in kinds if kind not in management.served and kind not in defined]
    for api_version, kind in unknown:
        clients.discovery.resource(api_version, kind)
    return connect_management(clients) if unknown else management
