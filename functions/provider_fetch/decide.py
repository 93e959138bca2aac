"""One step at a time: the version, its files, its contract; then the installation can begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components import contracts, metadata, versions
from shared.components.bundles import Bundle
from shared.components.errors import ComponentsError, IncompatibleVersion
from shared.components.repositories import Files, config_maps
from shared.components.repositories.config_maps import ConfigMapRepository
from shared.download import SourceError
from shared.effects import MANAGER, Effect, Patch, Results
from shared.event import change_event
from shared.kube import ApiError, Object, deleting, dig, key_of
from shared.providers import phases
from shared.providers.inputs import source_hash
from shared.providers.source_resolution import SOURCE_ANNOTATION, ResolvedSource, Source
from shared.providers.status import (
    PREFLIGHT_CHECK_PASSED,
    PROVIDER_INSTALLED,
    PROVIDER_UPGRADED,
    ProviderStatusBuilder,
    passed_preflight,
)
from shared.runtime import Decision
from shared.runtime.keyed_lock import KeyedLock

from .observe import Observed

KEEP = ("metadata", "annotations", "capi-functions.dev/keep-download")
CONFIG_MAPS = "config-map"
"""What is downloaded is put into a ConfigMap beside the provider, too."""

SOURCE = "/provider_fetch"

# Seconds until the next look.
SOURCE_RETRY = 60.0
BROKEN_RETRY = 600.0

_LOCK = KeyedLock("the download of components", limit=3)
"""A slow source takes no more than some of a process's threads."""


class WrongAnnotation(ComponentsError):
    reason = "InvalidAnnotation"


@dataclass(frozen=True)
class Download:
    """Effect: puts one version into storage, from its source, or from the fallback if the source does not answer.

    Raises `SourceError` or `ComponentsError`.
    """

    resolved: ResolvedSource

    def execute(self, clients: Clients) -> Bundle:
        try:
            return self._from(clients, self.resolved.source)
        except SourceError:
            if self.resolved.fallback is None:
                raise
            return self._from(clients, self.resolved.fallback)

    def _from(self, clients: Clients, source: Source) -> Bundle:
        version, repository = self.resolved.version, source.repository
        with _LOCK.hold((source.identity, version)):
            if bundle := clients.components.find(source.identity, version):
                return bundle
            files = repository.fetch(version)
            metadata.parse(files.metadata.encode(), repository.place)
            bundle = Bundle(version, files.metadata, files.components, repository.place)
            return clients.components.save(source.identity, bundle)


@dataclass(frozen=True)
class Keep:
    """Writes the ConfigMap that a site without a way out can be given."""

    config_map: Mapping[str, Any]

    def execute(self, clients: Clients) -> None:
        try:
            clients.management.apply(CONFIG_MAP, dict(self.config_map), manager=MANAGER)
        except ApiError as error:
            if error.status not in (400, 413, 422):
                raise
            what = f"annotation {KEEP[-1]}: ConfigMap {key_of(self.config_map)} cannot be written: {error.detail}"
            raise ComponentsError(f"{what}; take the annotation away to do without it") from error


def decide(observed: Observed, now: datetime, *, resync: bool = False) -> Decision:
    provider = observed.provider
    if provider is None or deleting(provider):
        return Decision(message="the provider is gone, or going")
    if cluster_api.is_paused(provider):
        return Decision(message="paused")
    if observed.inputs.problem:
        return Decision(message=observed.inputs.problem)  # the preflight says so
    if not passed_preflight(provider):
        return Decision(message="not checked yet")
    builder = ProviderStatusBuilder(provider, now)
    if (keep := dig(provider, KEEP)) not in (None, CONFIG_MAPS):
        return _broken(builder, WrongAnnotation(f"annotation {KEEP[-1]} is {keep!r}; it may be {CONFIG_MAPS}"))
    resolved = observed.resolved
    assert resolved is not None
    if isinstance(resolved, Exception):
        return _broken(builder, resolved)
    if not provider_api.spec_version(provider):
        return _resolved(builder, provider, resolved.version)
    if resolved.bundle is None:
        return Decision((Download(resolved),), proceed=True)
    return _judge(builder, observed, provider, resolved, resolved.bundle, resync=resync)


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """A download that failed is a state of the provider, not a failure of ours."""
    if observed.provider is None or not isinstance(results.error, (ComponentsError, SourceError)):
        return decision
    error, results.error = results.error, None
    return _broken(ProviderStatusBuilder(observed.provider, now), error)


def _broken(builder: ProviderStatusBuilder, error: ComponentsError | SourceError) -> Decision:
    if isinstance(error, ComponentsError):
        reason, again = error.reason, BROKEN_RETRY
    else:
        reason = ComponentsError.reason
        again = error.retry_after or (SOURCE_RETRY if error.transient else BROKEN_RETRY)
    builder.set_false(PROVIDER_INSTALLED, reason, str(error), event_type="Warning")
    return Decision(
        status=builder.status(),
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=again,
        message=str(error),
    )


def _resolved(builder: ProviderStatusBuilder, provider: Object, version: str) -> Decision:
    """The newest version is written into the spec, and checked there: it stays until somebody clears it again."""
    if message := versions.downgrade(provider_api.installed_version(provider), version):
        builder.set_false(PREFLIGHT_CHECK_PASSED, "UnsupportedProviderDowngradeReason", message, event_type="Warning")
        return Decision(status=builder.status(), kubernetes_events=tuple(builder.kubernetes_events), message=message)
    resource = provider_api.kind_of(provider).resource
    again = change_event(provider, "update", source=SOURCE, reference=True)
    return Decision((Patch(resource, provider, {"spec": {"version": version}}),), reply=again, message=version)


def _judge(
    builder: ProviderStatusBuilder,
    observed: Observed,
    provider: Object,
    resolved: ResolvedSource,
    bundle: Bundle,
    *,
    resync: bool,
) -> Decision:
    version = resolved.version
    try:
        told = metadata.parse(bundle.metadata.encode(), bundle.source)
        kept, refusal = contracts.of_version(told, version)
        if refusal:
            raise IncompatibleVersion(refusal)
    except IncompatibleVersion as error:
        return _broken(builder, error)
    upgrades = provider_api.installed_version(provider) not in ("", version)
    if upgrades and (message := contracts.refusal(provider, version, kept, observed.others)):
        builder.set_false(PROVIDER_UPGRADED, "ComponentsUpgradeError", message, event_type="Warning")
        status, kubernetes_events = builder.status(), tuple(builder.kubernetes_events)
        return Decision(status=status, kubernetes_events=kubernetes_events, requeue_after=SOURCE_RETRY, message=message)
    before = dig(provider, "status.target", {})
    asked = source_hash(provider, observed.inputs)
    target = {
        "version": version,
        "source": bundle.source,
        "digest": bundle.digest,
        "asked": asked,
        "contract": kept,
    }
    effects: tuple[Effect, ...] = ()
    # What comes from ConfigMaps has one.
    if dig(provider, KEEP) == CONFIG_MAPS and not isinstance(resolved.source.repository, ConfigMapRepository):
        effects = (Keep(_config_map(provider, version, bundle)),)
    step = phases.next_step(phases.FETCHED, provider, resync=resync)
    message = f"{version} of {bundle.source} is in storage"
    return Decision(effects, {"target": {**before, **target}}, reply=step, message=message)


def _config_map(provider: Object, version: str, bundle: Bundle) -> Object:
    files = Files(bundle.metadata, bundle.components)
    kept = config_maps.as_config_map(provider, version, files, oci=dig(provider, "spec.fetchConfig.oci", ""))
    kept["metadata"]["annotations"][SOURCE_ANNOTATION] = bundle.source
    return kept
