"""`spec.manager` of a provider: the flags and probes of its controller manager."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .custom_resource import Int64, Model

Duration = Annotated[
    str, Field(max_length=64, pattern=r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$")
]
"""In Go's format, such as 10m0s."""


class Controller(Model):
    """Settings of the manager's controllers."""

    group_kind_concurrency: dict[str, int] | None = None
    """The number of concurrent reconciliations by kind: flag --<kind>-concurrency for each."""
    cache_sync_timeout: Int64 | None = None
    """Nanoseconds. Accepted without effect, because there is no flag for it."""
    recover_panic: bool | None = None
    """Accepted without effect, because there is no flag for it."""


class Metrics(Model):
    """Settings of the metrics and diagnostics endpoints."""

    bind_address: str | None = None
    """Flag --metrics-bind-addr."""
    diagnostics_address: str | None = None
    """Flag --diagnostics-address."""
    insecure_diagnostics: bool | None = None
    """Flag --insecure-diagnostics, only set if true, because not all providers have it."""


class Health(Model):
    """Settings of the health probes."""

    health_probe_bind_address: str | None = None
    """Flag --health-addr."""
    readiness_endpoint_name: str | None = None
    """The path of the readiness probe, if the container has one by HTTP."""
    liveness_endpoint_name: str | None = None
    """The path of the liveness probe, if the container has one by HTTP."""


class Webhook(Model):
    """Settings of the webhook server."""

    port: int | None = Field(None, ge=0, le=65535)
    """Flag --webhook-port."""
    host: str | None = None
    """Flag --webhook-host."""
    cert_dir: str | None = None
    """Flag --webhook-cert-dir."""


class LeaderElection(Model):
    """Leader election; flags are only set if leaderElect is true. Durations are rounded to seconds, 0 sets no flag."""

    leader_elect: bool | None = None
    """Flag --leader-elect. Without it the other fields have no effect."""
    lease_duration: Duration | None = None
    """Flag --leader-elect-lease-duration."""
    renew_deadline: Duration | None = None
    """Flag --leader-elect-renew-deadline."""
    retry_period: Duration | None = None
    """Flag --leader-elect-retry-period."""
    resource_lock: str | None = None
    """Accepted without effect, because there is no flag for it."""
    resource_name: str | None = None
    """Flag --leader-election-id, together with resourceNamespace."""
    resource_namespace: str | None = None
    """Flag --leader-election-id, together with resourceName."""


class ManagerSpec(Model):
    """Settings of the container `manager`, or of the first container if none has that name. Applied after
    `deployment`."""

    sync_period: Duration | None = None
    """Flag --sync-period, in whole seconds; 0 sets no flag."""
    leader_election: LeaderElection | None = None
    cache_namespace: str | None = None
    """Flag --namespace: the only namespace that the provider watches."""
    graceful_shut_down: Duration | None = None
    """Accepted without effect, because there is no flag for it."""
    controller: Controller | None = None
    metrics: Metrics | None = None
    health: Health | None = None
    webhook: Webhook | None = None
    profiler_address: str | None = None
    """Flag --profiler-address."""
    max_concurrent_reconciles: int | None = Field(None, ge=1)
    """Flag --max-concurrent-reconciles."""
    verbosity: int = Field(1, ge=0)
    """Flag --v; 1 keeps the flag of the manifest."""
    feature_gates: dict[str, bool] | None = None
    """Flag --feature-gates: merged over the feature gates of the manifest."""
    additional_args: dict[str, str] | None = None
    """Further flags with their dashes; flags that are set already are not replaced."""
