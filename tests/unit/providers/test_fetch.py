"""`provider_fetch`, in tables: the version that is written, what is downloaded, and which failures are reported."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.provider_fetch.decide import SaveConfigMap, decide
from functions.provider_fetch.observe import Observed
from shared.api.conditions import get_condition
from shared.api.provider import INFRASTRUCTURE
from shared.components.bundles import Bundle
from shared.components.errors import ComponentsError, InvalidToken
from shared.components.repositories.config_maps import ConfigMapRepository
from shared.download import SourceError
from shared.effects import Patch, Results
from shared.kube import Object
from shared.providers.inputs import Inputs
from shared.providers.source_resolution import ResolvedSource
from shared.runtime import Decision
from tests.support.provider_objects import provider

NOW = datetime(2026, 1, 1, tzinfo=UTC)
METADATA = """apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
- {major: 1, minor: 1, contract: v1beta2}
- {major: 1, minor: 2, contract: v1beta2}
- {major: 3, minor: 0, contract: v1alpha3}
"""
CHECKED = {"type": "PreflightCheckPassed", "status": "True", "observedGeneration": 1}


class Site:
    """A repository that nothing asks here, since effects are not executed."""

    place = "https://example.com"
    identity = place
    private = False

    def default_version(self) -> str:
        raise NotImplementedError

    def versions(self) -> list[str]:
        raise NotImplementedError

    def fetch(self, version: str) -> Any:
        raise NotImplementedError


def made(
    version: str = "v1.1.0", *, installed: str = "", conditions: list[Object] | None = None, **more: Any
) -> Object:
    found = [CHECKED] if conditions is None else conditions
    return provider(INFRASTRUCTURE, "docker", version=version, installed=installed, conditions=found, **more)


def resolved(version: str = "v1.1.0", *, stored: bool = True, repository: Any = None) -> ResolvedSource:
    bundle = Bundle(version, METADATA, "components", "https://example.com") if stored else None
    return ResolvedSource(repository or Site(), version, bundle)


def condition(decision: Decision | None, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
    assert decision is not None
    found = get_condition((decision.status or {})["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(Observed(None), id="gone"),
        pytest.param(Observed(made(metadata={"deletionTimestamp": "x"}), resolved=resolved()), id="being deleted"),
        pytest.param(
            Observed(made(metadata={"annotations": {"cluster.x-k8s.io/paused": ""}}), resolved=resolved()), id="paused"
        ),
        pytest.param(Observed(made(conditions=[]), resolved=resolved()), id="not checked"),
        pytest.param(
            Observed(made(conditions=[CHECKED | {"status": "False"}]), resolved=resolved()), id="the checks failed"
        ),
        pytest.param(Observed(made(), Inputs(problem="no Secret"), resolved()), id="an input is missing"),
    ],
)
def test_nothing_is_fetched(observed: Observed) -> None:
    decision = decide(observed, NOW)
    assert (decision.effects, decision.status, decision.reply) == ((), None, None)
    assert decision.message


def test_resolved_version_is_written_and_checked() -> None:
    obj = made("")
    decision = decide(Observed(obj, resolved=resolved("v1.2.0", stored=False)), NOW)
    [effect] = decision.effects
    assert isinstance(effect, Patch)
    assert effect.patch == {"spec": {"version": "v1.2.0"}}
    assert decision.reply is not None
    assert (decision.reply.type, decision.reply.object, decision.reply.kind) == (
        "dev.capi-functions.provider.changed",
        None,
        "InfrastructureProvider",
    )


def test_resolved_version_is_no_downgrade() -> None:
    decision = decide(Observed(made("", installed="v1.2.0"), resolved=resolved("v1.1.0")), NOW)
    assert condition(decision, "PreflightCheckPassed")[:2] == ("False", "UnsupportedProviderDowngradeReason")
    assert (decision.effects, decision.requeue_after) == ((), None)
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


@pytest.mark.parametrize("resync", [True, False])
@pytest.mark.parametrize("installed", ["", "v1.1.0", "v1.0.0"])
def test_stored_components_start_the_installation(installed: str, resync: bool) -> None:
    wanted = resolved()
    obj = made(installed=installed, status={"target": {"object": "kept"}})
    decision = decide(Observed(obj, resolved=wanted, resync=resync), NOW)
    assert wanted.bundle is not None
    target = (decision.status or {})["target"]
    assert target.pop("sourceHash")
    assert target == {
        "object": "kept",
        "version": "v1.1.0",
        "source": "https://example.com",
        "digest": wanted.bundle.digest,
        "contract": "v1beta2",
    }
    assert decision.reply is not None
    assert (decision.reply.type, decision.reply.resync) == ("dev.capi-functions.provider.fetched", resync)
    assert decision.effects == ()


@pytest.mark.parametrize(
    ("annotation", "repository", "copied"),
    [
        (None, Site(), False),
        ("config-map", Site(), True),
        ("config-map", ConfigMapRepository((), "a=b"), False),
    ],
    ids=["not wanted", "wanted", "comes from a ConfigMap"],
)
def test_download_is_kept_in_a_config_map(annotation: str | None, repository: Any, copied: bool) -> None:
    annotations = {"capi-functions.dev/keep-download": annotation} if annotation else {}
    obj = made(metadata={"annotations": annotations})
    effects = decide(Observed(obj, resolved=resolved(repository=repository)), NOW).effects
    assert [type(effect) for effect in effects] == [SaveConfigMap] * copied
    for effect in effects:
        assert isinstance(effect, SaveConfigMap)
        assert effect.config_map["metadata"]["name"] == "infrastructure-docker-v1.1.0"
        assert "https://example.com" in effect.config_map["metadata"]["annotations"].values()


@pytest.mark.parametrize(
    ("version", "installed", "others", "type_", "reason", "seconds"),
    [
        pytest.param("v9.0.0", "", [], "ProviderInstalled", None, 600.0, id="no release series"),
        pytest.param("v3.0.0", "", [], "ProviderInstalled", None, 600.0, id="contract not supported"),
        pytest.param(
            "v1.2.0",
            "v1.1.0",
            [provider(version="v1.0.0", installed="v1.0.0", status={"contract": "v1beta1"})],
            "ProviderUpgraded",
            "ComponentsUpgradeError",
            60.0,
            id="the core provider is of an older contract",
        ),
    ],
)
def test_version_of_another_contract_is_not_installed(
    version: str, installed: str, others: list[Object], type_: str, reason: str | None, seconds: float
) -> None:
    obj = made(version, installed=installed)
    decision = decide(Observed(obj, resolved=resolved(version), others=others), NOW)
    assert condition(decision, type_)[0] == "False"
    assert reason in (None, condition(decision, type_)[1])
    assert (decision.reply, decision.requeue_after) == (None, seconds)
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


FAILURES = [
    (ComponentsError("no such kind"), ComponentsError.reason, 600.0),
    (SourceError("no answer", transient=True), ComponentsError.reason, 60.0),
    (SourceError("not there", transient=False), ComponentsError.reason, 600.0),
    (SourceError("too many", transient=True, retry_after=7.0), ComponentsError.reason, 7.0),
]


@pytest.mark.parametrize(("error", "reason", "seconds"), FAILURES)
def test_failures_of_a_source_are_reported_and_retried(error: Any, reason: str, seconds: float) -> None:
    decision = decide(Observed(made(), resolved=error), NOW)
    assert condition(decision) == ("False", reason, str(error))
    assert decision.requeue_after == seconds
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


def test_refused_config_map_is_reported() -> None:
    observed = Observed(made(), resolved=resolved())
    error = ComponentsError("too large")
    reported = decide(observed, NOW, Results([], error))
    assert reported.reports is error
    assert condition(reported) == ("False", ComponentsError.reason, "too large")
    assert reported.requeue_after == 600.0


@pytest.mark.parametrize("error", [None, ValueError("a bug")])
def test_other_failures_are_not_reported(error: Exception | None) -> None:
    observed = Observed(made(), resolved=resolved())
    assert decide(observed, NOW, Results([], error)).reports is None


def test_failure_about_a_deleted_provider_is_not_reported() -> None:
    assert decide(Observed(None), NOW, Results([], ComponentsError("too large"))).reports is None


def test_rejected_token_fails_the_preflight_check_and_waits_for_another_token() -> None:
    decision = decide(Observed(made(), resolved=InvalidToken("https://example.com does not accept the token")), NOW)
    assert condition(decision, "PreflightCheckPassed") == (
        "False",
        "InvalidGithubTokenError",
        "https://example.com does not accept the token",
    )
    assert condition(decision, "ProviderInstalled") == ("", "", "")
    assert decision.requeue_after is None
