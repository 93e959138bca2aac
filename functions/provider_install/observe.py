"""Reads the inputs of one provider's installation and renders its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

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
from shared.components.certificates import CERT_MANAGER, CertificateRequest
from shared.components.errors import ComponentsError
from shared.components.render import render
from shared.components.webhooks import with_webhooks_at, without_webhooks
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from shared.manifests import Identity, identity
from shared.providers import inputs, ownership
from shared.providers.annotations import issues_own_certificates, omits_webhooks, webhooks_url
from shared.providers.inputs import FetchedComponents, Inputs, load_components
from shared.providers.ownership import inventory_of
from shared.providers.status import PROVIDER_INSTALLED, why_not_due
from shared.runtime import Request

from .certificates import Secrets, foreign_secret, issue_due


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one provider's installation."""

    provider: Object | None
    installed: bool = False
    """Whether the present inputs are installed and no resync was requested."""
    inputs: Inputs = field(default_factory=Inputs)
    digest: str = ""
    """The hash of all inputs."""
    inventory: Sequence[InventoryEntry] = ()
    """The provider's inventory; for a resumed installation with the current readiness of the objects."""
    components: FetchedComponents | None = None
    """The components of the version in the spec; None if they are not in storage."""
    policy: Policy | PolicyError | None = None
    rendered: Sequence[Object] | ComponentsError = ()
    management: ClusterConnection | None = None
    requests: Sequence[CertificateRequest] = ()
    """The certificates to issue here; empty if cert-manager issues them."""
    secrets: Secrets = field(default_factory=dict)
    """The Secrets of these certificates."""
    issued: Mapping[Key, Object] = field(default_factory=dict)
    """The Secrets to write with a new certificate."""
    crds: Mapping[str, Object] = field(default_factory=dict)
    """The live CRDs of the provider, by name; empty if this sync has applied all of them."""
    resync: bool = False
    """Whether to look at a provider that is already installed."""

    @property
    def resumed(self) -> bool:
        """Whether a sync of the same inputs has begun and is not complete.

        The inventory is current only then, because other writers may change the objects after a completed sync.
        """
        begun = dig(self.provider, "status.target.inputs") == self.digest
        return begun and not is_true(dig(self.provider, "status.conditions"), PROVIDER_INSTALLED)

    @property
    def upgrades(self) -> bool:
        """Whether the installed version differs from the one in the spec."""
        provider = self.provider or {}
        return provider_api.installed_version(provider) not in ("", provider_api.spec_version(provider))

    @property
    def live(self) -> dict[Identity, Object]:
        """The objects that were read, by identity."""
        secrets = (secret for secret in self.secrets.values() if secret is not None)
        return {identity(obj): obj for obj in (*secrets, *self.crds.values())}

    @property
    def serving_secrets(self) -> Secrets:
        """The Secrets as they are once the new certificates are written."""
        return {**self.secrets, **self.issued}


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs in the order of their dependence, up to the first obstacle.

    Except at a resync, a provider that is already installed is not read further.
    """
    provider, resync = request.primary, request.event.resync
    if why_not_due(provider) or provider is None:
        return Observed(provider, inventory=inventory_of(provider))
    read = inputs.read(clients, provider)
    digest = inputs.inputs_hash(provider, read, catalog.configuration_text())
    observed = Observed(provider, inputs=read, digest=digest, inventory=inventory_of(provider), resync=resync)
    if not resync and inputs.are_installed(provider, digest, datetime.now(UTC)):
        return replace(observed, installed=True)
    components = load_components(clients, provider, read)
    observed = replace(observed, components=components)
    if read.problem or components is None:
        return observed
    try:
        observed = replace(observed, policy=Policy.of(ownership.owner(provider), provider))
        own_certificates = issues_own_certificates(provider)
        objects = render(
            components.bundle.components,
            provider=provider,
            values=read.variables,
            additional=read.additional,
        ).objects
        if omits_webhooks(provider):
            objects = without_webhooks(objects)
        elif url := webhooks_url(provider):
            objects = with_webhooks_at(objects, url)
    except PolicyError as error:
        return replace(observed, policy=error)
    except ComponentsError as error:
        return replace(observed, rendered=error)
    requests = certificates.certificate_requests(objects)
    if own_certificates is None:
        own_certificates = bool(requests) and not has_cert_manager(clients, observed)
    return _in_cluster(clients, observed, provider, objects, requests if own_certificates else ())


def _in_cluster(
    clients: Clients,
    observed: Observed,
    provider: Object,
    objects: Sequence[Object],
    requests: Sequence[CertificateRequest],
) -> Observed:
    """Adds the live state of the objects: certificates, CRDs, readiness."""
    management = _connect_to_served(clients, objects if not requests else certificates.inject_ca_bundles(objects, {}))
    secrets = {request.secret: clients.management.find(SECRET, request.secret) for request in requests}
    taken = foreign_secret(provider, requests, secrets)
    issued = {} if taken else issue_due(requests, secrets, datetime.now(UTC))
    crds = _live_crds(clients, observed, management, provider, objects)
    inventory = [*observed.inventory, *_of_certificates(observed.inventory, secrets)]
    if observed.resumed:
        inventory = [recheck_readiness(management.cluster, entry) if entry.waiting else entry for entry in inventory]
    return replace(
        observed,
        inventory=inventory,
        rendered=objects,
        management=management,
        requests=requests,
        secrets=secrets,
        issued=issued,
        crds=crds,
    )


def _of_certificates(inventory: Sequence[InventoryEntry], secrets: Secrets) -> list[InventoryEntry]:
    """Returns inventory entries for the existing Secrets of certificates that the inventory lacks."""
    listed = {entry.identity for entry in inventory}
    found = [{**secret, "apiVersion": "v1", "kind": SECRET.kind} for secret in secrets.values() if secret is not None]
    entries = [replace(entry_of(secret), uid=dig(secret, "metadata.uid", "")) for secret in found]
    return [entry for entry in entries if entry.identity not in listed]


def has_cert_manager(clients: Clients, observed: Observed) -> bool:
    """Returns whether cert-manager issues the certificates.

    A resumed installation goes on with the issuer that it began with, even if cert-manager was installed meanwhile.
    """
    if observed.resumed and observed.inventory:
        return any(entry.group == CERT_MANAGER for entry in observed.inventory)
    return clients.discovery.resource(f"{CERT_MANAGER}/v1", "Certificate") is not None


def _live_crds(
    clients: Clients,
    observed: Observed,
    management: ClusterConnection,
    provider: Object,
    objects: Sequence[Object],
) -> dict[str, Object]:
    """Returns the live CRDs of these objects, by name: one list by the provider's label.

    None is read for a first installation while the API server serves none of their kinds. For an upgrade, CRDs that
    this list lacks are read one by one, because another installer may have created them.
    """
    applied = {entry.name for entry in observed.inventory if entry.kind == CRD.kind and entry.status == SYNCED}
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == CRD.kind]
    if observed.resumed and applied.issuperset(names):
        return {}
    served = {(resource.group, resource.kind) for resource in management.served.values()}
    defined = {(resource.group, resource.kind) for resource in kinds_defined_by(objects).values()}
    if not observed.inventory and not observed.upgrades and not served & defined:
        return {}
    selector = provider_api.selector_of(provider)
    found = {crd["metadata"]["name"]: crd for crd in clients.management.list(CRD, selector=selector)}
    if observed.upgrades:
        for name in set(names) - set(found):
            if (crd := clients.management.find(CRD, Key("", name))) is not None:
                found[name] = crd
    return found


def _connect_to_served(clients: Clients, objects: Sequence[Object]) -> ClusterConnection:
    """Connects to the management cluster, after a refresh of discovery if it lacks a kind of these objects."""
    management, defined = connect_management(clients), kinds_defined_by(objects)
    clusterctl = (CLUSTERCTL_PROVIDER.api_version, CLUSTERCTL_PROVIDER.kind)  # recorded if the kind is served
    kinds = {(obj["apiVersion"], obj["kind"]) for obj in objects} | {clusterctl}
    unknown = [kind for kind in kinds if kind not in management.served and kind not in defined]
    for api_version, kind in unknown:
        clients.discovery.resource(api_version, kind)
    return connect_management(clients) if unknown else management
