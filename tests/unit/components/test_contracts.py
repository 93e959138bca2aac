"""Which contracts installed providers may have. Numbers are those of the acceptance list."""

from __future__ import annotations

import pytest

from shared.api.provider import ADDON, BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, ProviderKind
from shared.components.metadata import ProviderMetadata, Series
from shared.components.versions import contract_of, upgrade_refusal
from shared.kube import Object
from tests.support.provider_objects import provider

OLD, NOW, NEXT = "v1beta1", "v1beta2", "v1beta3"


def made(kind: ProviderKind, name: str, contract: str, version: str = "v2.0.0") -> Object:
    return provider(kind, name, installed=version, status={"contract": contract} if contract else None)


def core(contract: str, version: str = "v1.10.0") -> Object:
    return made(CORE, "cluster-api", contract, version)


def infra(contract: str) -> Object:
    return made(INFRASTRUCTURE, "aws", contract)


def moving(contract: str) -> Object:
    return provider(INFRASTRUCTURE, "aws", installed="v2.0.0", version="v3.0.0", status={"contract": contract})


@pytest.mark.parametrize(
    ("upgraded", "version", "contract", "others", "word"),
    [
        pytest.param(infra(NOW), "v2.0.1", NOW, [core(NOW)], "", id="UP1"),
        pytest.param(infra(OLD), "v2.0.1", OLD, [core(NOW)], "", id="UP2"),
        pytest.param(core(NOW), "v1.10.1", NOW, [infra(NOW)], "", id="UP3"),
        pytest.param(core(NOW, "v1.0.0"), "v2.0.0", NOW, [infra(NOW)], "", id="UP4"),
        pytest.param(infra(NOW), "v3.0.0", NEXT, [core(NOW)], "upgrade the core provider first", id="UP5"),
        pytest.param(infra(OLD), "v3.0.0", NOW, [core(OLD)], "upgrade the core provider first", id="UP6"),
        pytest.param(core(NOW), "v1.11.0", NEXT, [infra(NOW)], "InfrastructureProvider capi-system/aws", id="UP7"),
        pytest.param(core("v1alpha4"), "v1.11.0", NOW, [infra("v1alpha4")], "upgrade it first", id="UP8"),
        pytest.param(core(OLD), "v1.11.0", NOW, [infra(OLD)], "", id="UP9"),
        pytest.param(core("v1alpha4"), "v1.11.0", NOW, [moving("v1alpha4")], "", id="UP11 first core"),
        pytest.param(infra("v1alpha4"), "v3.0.0", NOW, [core(NOW)], "", id="UP11 then the other"),
        pytest.param(infra(NOW), "v3.0.0", NOW, [], "", id="no core"),
        pytest.param(core(NOW), "v1.11.0", NOW, [provider(ADDON, "helm")], "", id="D-10 one that is not installed"),
        pytest.param(core(NOW), "v1.11.0", NOW, [infra("")], "", id="D-10 one that tells nothing"),
    ],
)
def test_upgrade_needs_contracts_compatible_with_core(
    upgraded: Object, version: str, contract: str, others: list[Object], word: str
) -> None:
    message = upgrade_refusal(upgraded, version, contract, others)
    assert bool(message) == bool(word)
    assert word in message


@pytest.mark.parametrize(
    ("upgraded", "version", "passes"),
    [
        (core(NOW), "v1.14.0", False),
        (core(NOW), "v1.13.0", True),
        (made(BOOTSTRAP, "kubeadm", NOW, "v1.10.0"), "v1.14.0", False),
        (made(CONTROL_PLANE, "kubeadm", NOW, "v1.10.0"), "v1.14.0", False),
        (made(INFRASTRUCTURE, "docker", NOW, "v1.10.0"), "v1.14.0", True),
        (core(NOW, "v1.9.0"), "v1.14.0", True),
    ],
)
def test_up13_upgrade_by_more_than_three_minor_versions_is_refused(
    upgraded: Object, version: str, passes: bool
) -> None:
    message = upgrade_refusal(upgraded, version, NOW, [])
    assert (message == "") is passes
    if not passes:
        assert "can't skip more than 3 versions" in message
        assert "v1.13" in message


def test_contract_of_a_version_comes_from_its_release_series() -> None:
    metadata = ProviderMetadata((Series(1, 14, NOW), Series(1, 5, "v1alpha4"), Series(1, 10, OLD)))
    assert contract_of(metadata, "v1.14.3") == (NOW, "")
    assert contract_of(metadata, "v1.10.0") == (OLD, "")
    assert "v1alpha4" in contract_of(metadata, "v1.5.0")[1]
    assert "does not match any release series" in contract_of(metadata, "v1.3.0")[1]


def test_up10_unknown_contract_is_refused() -> None:
    contract, refused = contract_of(ProviderMetadata((Series(2, 0, NEXT),)), "v2.0.0")
    assert contract == NEXT
    assert "supported are v1beta2 and v1beta1" in refused
