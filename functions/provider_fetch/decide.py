"""Decides the next step of one provider: a write of the resolved version to its spec, or the start of its installation.

The installation starts only if the contract of the version is supported. An upgrade must also fit the contracts of the
other providers, and must not skip too many minor versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.api import provider as provider_api
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.components import metadata, versions
from shared.components.bundles import Bundle
from shared.components.errors import ComponentsError, IncompatibleVersion, InvalidToken
from shared.components.repositories import Files, config_maps
from shared.components.repositories.config_maps import ConfigMapRepository
from shared.download import SourceError
from shared.effects import Effect, Patch, Results
from shared.kube import MANAGER, ApiError, Object, dig, key_of
from shared.providers import phases
from shared.providers.annotations import KEEP_DOWNLOAD, keeps_download
from shared.providers.inputs import source_hash
from shared.providers.source_resolution import SOURCE_ANNOTATION, ResolvedSource
from shared.providers.status import (
    PREFLIGHT_CHECK_PASSED,
    PROVIDER_INSTALLED,
    PROVIDER_UPGRADED,
    ProviderStatusBuilder,
    why_not_due,
)
from shared.runtime import Decision

from .observe import Observed

SOURCE_RETRY = 60.0
"""Seconds until the next attempt after a transient error of the source, or after an upgrade was refused."""
INVALID_RETRY = 600.0
"""Seconds until the next attempt after an error that only a change of the provider or of its source can resolve."""


@dataclass(frozen=True)
class SaveConfigMap:
    """Effect: writes the ConfigMap with the downloaded components, for use in clusters without internet access."""

    config_map: Mapping[str, Any]

    def execute(self, clients: Clients) -> None:
        try:
            clients.management.apply(CONFIG_MAP, dict(self.config_map), manager=MANAGER)
        except ApiError as error:
            if error.status not in (400, 413, 422):
                raise
            what = f"annotation {KEEP_DOWNLOAD}: cannot write ConfigMap {key_of(self.config_map)}: {error.detail}"
            raise ComponentsError(f"{what}; remove the annotation to install without the ConfigMap") from error


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step: a write of `spec.version`, or the start of `provider_install`.

    Reports in the provider's status that the ConfigMap cannot be written.
    """
    provider = observed.provider
    if (reason := why_not_due(provider)) or provider is None:
        return Decision(message=reason)
    if observed.inputs.problem:
        return Decision(message=observed.inputs.problem)  # `provider_preflight` reports it
    builder = ProviderStatusBuilder(provider, now)
    if results is not None and isinstance(results.error, ComponentsError):
        return replace(_failed(builder, results.error), reports=results.error)
    resolved = observed.resolved
    assert resolved is not None
    if isinstance(resolved, Exception):
        return _failed(builder, resolved)
    if not provider_api.spec_version(provider):
        return _write_version(builder, provider, resolved.version)
    assert resolved.bundle is not None
    return _start_installation(builder, observed, provider, resolved, resolved.bundle)


def _failed(builder: ProviderStatusBuilder, error: ComponentsError | SourceError) -> Decision:
    if isinstance(error, InvalidToken):
        # Another token in the Secret, or the sweep, starts `provider_preflight` again.
        builder.set_false(PREFLIGHT_CHECK_PASSED, error.reason, str(error), event_type="Warning")
        return builder.decision(message=str(error))
    if isinstance(error, ComponentsError):
        reason, seconds = error.reason, INVALID_RETRY
    else:
        reason = ComponentsError.reason
        seconds = error.retry_after or (SOURCE_RETRY if error.transient else INVALID_RETRY)
    builder.set_false(PROVIDER_INSTALLED, reason, str(error), event_type="Warning")
    return builder.decision(requeue_after=seconds, message=str(error))


def _write_version(builder: ProviderStatusBuilder, provider: Object, version: str) -> Decision:
    """Decides to write the resolved version to the spec, and starts `provider_preflight`, which checks the new spec.

    A downgrade is reported instead.
    """
    if message := versions.downgrade_refusal(provider_api.installed_version(provider), version):
        builder.set_false(PREFLIGHT_CHECK_PASSED, "UnsupportedProviderDowngradeReason", message, event_type="Warning")
        return builder.decision(message=message)
    resource = provider_api.kind_of(provider).resource
    event = phases.completion_event(phases.CHANGED, provider, resync=False)
    return Decision((Patch(resource, provider, {"spec": {"version": version}}),), reply=event, message=version)


def _start_installation(
    builder: ProviderStatusBuilder,
    observed: Observed,
    provider: Object,
    resolved: ResolvedSource,
    bundle: Bundle,
) -> Decision:
    """Decides to start the installation; reports a version that cannot be used, or an upgrade that is refused."""
    version = resolved.version
    try:
        release_series = metadata.parse(bundle.metadata.encode(), bundle.source)
        contract, problem = versions.contract_of(release_series, version)
        if problem:
            raise IncompatibleVersion(problem)
    except IncompatibleVersion as error:
        return _failed(builder, error)
    upgrades = provider_api.installed_version(provider) not in ("", version)
    if upgrades and (message := versions.upgrade_refusal(provider, version, contract, observed.others)):
        builder.set_false(PROVIDER_UPGRADED, "ComponentsUpgradeError", message, event_type="Warning")
        return builder.decision(requeue_after=SOURCE_RETRY, message=message)
    target = {
        **dig(provider, "status.target", {}),
        "version": version,
        "source": bundle.source,
        "digest": bundle.digest,
        "sourceHash": source_hash(provider, observed.inputs),
        "contract": contract,
    }
    effects: tuple[Effect, ...] = ()
    # A version that comes from a ConfigMap needs no second ConfigMap.
    repository = resolved.repository
    downloaded = bundle.source == repository.place and not isinstance(repository, ConfigMapRepository)
    if downloaded and keeps_download(provider):
        effects = (SaveConfigMap(_config_map(provider, version, bundle)),)
    event = phases.completion_event(phases.FETCHED, provider, resync=observed.resync)
    message = f"{version} of {bundle.source} is in storage"
    return Decision(effects, {"target": target}, reply=event, message=message)


def _config_map(provider: Object, version: str, bundle: Bundle) -> Object:
    files = Files(bundle.metadata, bundle.components)
    config_map = config_maps.to_config_map(provider, version, files, oci=dig(provider, "spec.fetchConfig.oci", ""))
    config_map["metadata"]["annotations"][SOURCE_ANNOTATION] = bundle.source
    return config_map
