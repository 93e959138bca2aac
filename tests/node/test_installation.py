"""The published manifests and image on a real node: pods, DNS, Services, service accounts, as in any cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from infra.node import knative
from shared.kube import Client
from tests.support.audit import AuditLog, prove
from tests.support.node_addons import Addons, send_timer
from tests.support.node_installation import NAMESPACE, Installation, measured
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

BROKER_PODS = ("eventing.knative.dev/brokerRole in (ingress, filter)", "messaging.knative.dev/role=dispatcher")
READY = ("wait", "--for=condition=Ready", "--all", "-n", NAMESPACE, "--timeout=300s")
KINDS = "brokers,triggers,pingsources,sinkbindings"


def live(addons: Addons, *, deployments: tuple[str, str], sweep: str) -> None:
    """A Cluster gets addons, is upgraded, drifts and is repaired, and is deleted, while pods are killed.

    `deployments` are those of the function that applies, and of the one that fetches; `sweep` is a path to the sweep.
    """
    installed = addons.installed
    with measured("first addons Ready"):
        addons.wants(kept="1", changed="1", dropped="1")
    for name in deployments:
        installed.kill_pods(name)
    with measured("upgrade, functions killed"):
        addons.wants(kept="1", changed="2", added="1")
    addons.drift("kept", "of somebody else")
    with measured("repair"):
        repaired = "the drift is repaired"
        until(lambda: addons.maps()["kept"] == "1", repaired, between=lambda: send_timer(installed, sweep), pause=2)
    installed.empty_store()
    installed.kill_pods(deployments[0])
    with measured("upgrade, object store emptied and function killed"):
        addons.wants(kept="2")
    with measured("deletion"):
        addons.remove()
    print("MiB:", installed.memory(NAMESPACE))


def install(installed: Installation, profile: str, kinds: str = "") -> None:
    """Installs a profile, and waits until its Deployments are Available, and Knative's `kinds` Ready."""
    installed.install(profile)
    installed.until_available(NAMESPACE)
    if kinds:
        installed.kube(*READY, kinds)


def test_addons_live_without_knative(prepared: Installation, audit: AuditLog, workload: Client) -> None:
    profile = "profiles/standalone/single"
    with measured("functions Available"):
        install(prepared, profile)
    pods = ("capi-functions", "capi-functions")
    live(Addons(prepared, "single", workload), deployments=pods, sweep="capi-functions/sweep")
    prove(audit, prepared.built(profile))
    prepared.kube("delete", "deployments", "--all", "-n", NAMESPACE)


def test_single_installation_is_removed_and_comes_back(prepared: Installation, workload: Client) -> None:
    again = partial(install, prepared, "profiles/standalone/single")
    again()
    come_back(Addons(prepared, "remaining", workload), Addons(prepared, "parting", workload), again)
    prepared.remove()


def test_addons_live_with_knative(installed: Installation, audit: AuditLog, workload: Client) -> None:
    installed.install_knative(knative.EVENTING)
    profile = "profiles/standalone/forwarder"
    begin_with_sources(installed, Addons(installed, "sourced", workload), profile)
    live(Addons(installed, "brokered", workload), deployments=("addon-apply", "release-assets"), sweep="sweep/")
    outlive_broker(Addons(installed, "unlucky", workload))
    prove(audit, installed.built(profile))
    again = partial(install, installed, profile, KINDS)
    come_back(Addons(installed, "patient", workload), Addons(installed, "leaving", workload), again)


def begin_with_sources(installed: Installation, addons: Addons, profile: str) -> None:
    """A Cluster gets addons by ApiServerSources and sweeps; then the forwarder takes their place, as the docs say."""
    sweep = partial(send_timer, installed, "sweep/", everything=False)
    with measured("Broker, Triggers, ApiServerSources and functions Ready"):
        install(installed, profile.replace("forwarder", "sources"), f"{KINDS},apiserversources")
    with measured("first addons Ready, with ApiServerSources"):
        addons.wants(kept="1", between=sweep)
    with measured("upgrade, adapters of the ApiServerSources killed"):
        installed.delete_pods(NAMESPACE, "eventing.knative.dev/source=apiserver-source-controller")
        addons.wants(kept="2", between=sweep)
    with measured("forwarder in place of the ApiServerSources"):
        install(installed, profile)
        installed.kube("delete", "apiserversources", "-n", NAMESPACE, "resources", "references")
        installed.kube(
            *("delete", "serviceaccount,clusterrole,clusterrolebinding", "-n", NAMESPACE),
            "capi-functions-sources",
        )
        installed.kube(*READY, KINDS)
    with measured("upgrade, with the forwarder"):
        addons.wants(kept="3")
    addons.remove()


def outlive_broker(addons: Addons) -> None:
    """An upgrade goes on while the pods are killed that events pass; the sweep repeats what is lost with them."""
    addons.wants(kept="1")
    with measured("upgrade, Knative's ingress, filter and dispatcher killed"):
        for label in BROKER_PODS:
            addons.installed.delete_pods(knative.EVENTING.namespace, label)
        addons.wants(kept="2", between=lambda: send_timer(addons.installed, "sweep/"))
    addons.remove()


def come_back(staying: Addons, leaving: Addons, install_again: Callable[[], None]) -> None:
    """The project is removed as the docs say: Clusters keep their addons, and the next installation goes on."""
    installed = staying.installed
    for addons in (staying, leaving):
        addons.wants(kept="1", changed="1")
    with measured("removal, with the namespace"):
        installed.remove()
    assert staying.maps() == {"kept": "1", "changed": "1"}
    leaving.delete()
    with measured("installation after the removal, what waited is done"):
        install_again()
        staying.wants(kept="1", changed="2")
        leaving.until_gone()
    staying.remove()
