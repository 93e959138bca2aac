"""The life of the real providers on a real API server: installed, unchanged, upgraded, reconfigured, deleted."""

from __future__ import annotations

from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, PROVIDER_LABEL, ProviderKind
from shared.api.resources import CLUSTER_ROLE, CLUSTERCTL_PROVIDER, DEPLOYMENT, SECRET
from shared.event import change_event
from shared.kube import Key, Object, Resource, dig
from shared.kube.crds import CRD
from tests.support.provider_world import Providers, is_ready
from tests.support.real_providers import CURRENT, PREVIOUS, components, reduced
from tests.support.until import until

FOUR = (
    (CORE, "cluster-api", "capi-system", "core-components.yaml"),
    (BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system", "bootstrap-components.yaml"),
    (CONTROL_PLANE, "kubeadm", "capi-kubeadm-control-plane-system", "control-plane-components.yaml"),
    (INFRASTRUCTURE, "docker", "capd-system", "infrastructure-components-development.yaml"),
)
CORE_KEY = (CORE, "cluster-api", "capi-system")


def bring(providers: Providers, version: str) -> None:
    """Installs all four at this version, one after the other."""
    providers.releases.append(components(version))
    for kind, name, namespace, file in FOUR:
        providers.apply(kind, name, namespace, version=version, fetchConfig={"url": providers.url(file)})
        providers.until_ready(kind, name, namespace)


def of_provider(providers: Providers, resource: Resource, label: str) -> list[str]:
    found = providers.client.list(resource, selector=f"{PROVIDER_LABEL}={label}")
    return sorted(obj["metadata"]["name"] for obj in found)


def test_four_real_providers_are_installed_and_upgraded(providers: Providers) -> None:
    before = providers.requests
    bring(providers, PREVIOUS)
    print("install of the four:", providers.requests - before, "requests")
    for kind, name, namespace, _ in FOUR:
        provider = providers.get(kind, name, namespace)
        assert (dig(provider, "status.installedVersion"), dig(provider, "status.contract")) == (PREVIOUS, "v1beta2")
        assert dig(provider, "status.observedGeneration") == dig(provider, "metadata.generation")
        listed = providers.client.get(CLUSTERCTL_PROVIDER, Key(namespace, kind.label(name)))
        assert (listed["providerName"], listed["type"], listed["version"]) == (name, kind.kind, PREVIOUS)

    # Without changes: an event of the object needs no request, a reference two reads at most, and nothing is written.
    for kind, name, namespace, _ in FOUR:
        versions, before = providers.versions(), providers.requests
        providers.send(change_event(providers.get(kind, name, namespace), "update", source="/test"))
        assert providers.requests == before
        providers.reconcile(kind, name, namespace)
        assert providers.requests - before <= 2
        assert providers.versions() == versions

    # A resync writes nothing either.
    versions, before = providers.versions(), providers.requests
    for kind, name, namespace, _ in FOUR:
        providers.reconcile(kind, name, namespace, resync=True)
    print("resync of the four:", providers.requests - before, "requests")
    assert providers.versions() == versions

    before = providers.requests
    bring(providers, CURRENT)
    print("upgrade of the four:", providers.requests - before, "requests")
    for kind, name, namespace, _ in FOUR:
        provider = providers.get(kind, name, namespace)
        assert dig(provider, "status.installedVersion") == CURRENT
        assert providers.condition(provider, "ProviderUpgraded")["status"] == "True"
        [deployment] = providers.client.list(DEPLOYMENT, namespace)
        images = [container["image"] for container in dig(deployment, "spec.template.spec.containers")]
        assert all(image.endswith(CURRENT) for image in images), images
        listed = providers.client.get(CLUSTERCTL_PROVIDER, Key(namespace, kind.label(name)))
        assert listed["version"] == CURRENT

    before = providers.requests
    for kind, name, namespace, _ in reversed(FOUR):
        providers.client.delete(kind.resource, Key(namespace, name))
        providers.reconcile(kind, name, namespace)
        assert providers.client.find(kind.resource, Key(namespace, name)) is None
        label = kind.label(name)
        for resource in (CRD, CLUSTER_ROLE, DEPLOYMENT, SECRET, CLUSTERCTL_PROVIDER):
            assert of_provider(providers, resource, label) == [], f"{resource.kind} of {label}"
    print("delete of the four:", providers.requests - before, "requests")


def one(providers: Providers, version: str = CURRENT, **spec: object) -> Object:
    """Installs the core provider."""
    if reduced(version) not in providers.releases:
        providers.releases.append(reduced(version))
    url = providers.url("core-components.yaml")
    providers.apply(*CORE_KEY, version=version, **{"fetchConfig": {"url": url}, **spec})
    return providers.until_ready(*CORE_KEY)


def manager(providers: Providers) -> Object:
    return providers.client.get(DEPLOYMENT, Key("capi-system", "capi-controller-manager"))


def test_manager_flags_are_changed_and_removed(providers: Providers) -> None:
    one(providers, manager={"verbosity": 5}, deployment={"replicas": 2, "nodeSelector": {"kubernetes.io/os": "linux"}})
    deployment = manager(providers)
    assert "--v=5" in dig(deployment, "spec.template.spec.containers")[0]["args"]
    assert dig(deployment, "spec.replicas") == 2
    assert dig(deployment, "spec.template.spec.nodeSelector") == {"kubernetes.io/os": "linux"}
    one(providers)
    deployment = manager(providers)
    assert "--v=5" not in dig(deployment, "spec.template.spec.containers")[0]["args"]
    assert dig(deployment, "spec.replicas") == 1
    assert dig(deployment, "spec.template.spec.nodeSelector") is None


def test_without_wait_provider_is_ready_without_pods(providers: Providers) -> None:
    providers.releases.append(reduced(CURRENT))
    config = {"url": providers.url("core-components.yaml")}
    nowhere = {"nodeSelector": {"no": "node"}}
    annotations = {"capi-functions.dev/wait": "false"}
    providers.apply(*CORE_KEY, annotations, version=CURRENT, fetchConfig=config, deployment=nowhere)
    core = providers.until_ready(*CORE_KEY)
    assert providers.condition(core, "ComponentsAvailable")["reason"] == "NotAwaited"
    assert dig(manager(providers), "status.availableReplicas", 0) == 0


def test_changed_secret_is_rolled_out(providers: Providers) -> None:
    providers.secret("variables", "capi-system", CAPI_DIAGNOSTICS_ADDRESS=":1111")
    one(providers, configSecret={"name": "variables"})
    assert "--diagnostics-address=:1111" in dig(manager(providers), "spec.template.spec.containers")[0]["args"]
    before = dig(providers.get(*CORE_KEY), "status.target.inputs")
    providers.secret("variables", "capi-system", CAPI_DIAGNOSTICS_ADDRESS=":2222")
    providers.until_ready(*CORE_KEY)
    assert "--diagnostics-address=:2222" in dig(manager(providers), "spec.template.spec.containers")[0]["args"]
    assert dig(providers.get(*CORE_KEY), "status.target.inputs") != before  # HC9


def test_deleted_workload_is_recreated(providers: Providers) -> None:
    one(providers)
    deployment = manager(providers)
    providers.client.delete(DEPLOYMENT, Key("capi-system", "capi-controller-manager"))
    providers.send_change(deployment, DEPLOYMENT, "delete")
    assert manager(providers)["metadata"]["uid"] != deployment["metadata"]["uid"]


def test_resync_reverts_manual_changes(providers: Providers) -> None:
    one(providers)
    key = Key("capi-system", "capi-controller-manager")
    providers.client.patch(DEPLOYMENT, key, {"spec": {"replicas": 7}})
    providers.reconcile(*CORE_KEY, resync=True)
    assert dig(manager(providers), "spec.replicas") == 1


def test_certificates_are_issued_without_cert_manager(providers: Providers) -> None:
    core = one(providers)
    secret = providers.client.get(SECRET, Key("capi-system", "capi-webhook-service-cert"))
    crd = providers.client.get(CRD, Key("", "clusters.cluster.x-k8s.io"))
    ca = dig(crd, "spec.conversion.webhook.clientConfig.caBundle")
    assert ca == secret["data"]["ca.crt"]
    assert dig(core, "status.target.renewAt")


def with_an_object_of_its_kinds(providers: Providers) -> None:
    one(providers)
    classes = Resource("cluster.x-k8s.io", "v1beta2", "MachineDrainRule", "machinedrainrules")
    body = {
        "apiVersion": classes.api_version,
        "kind": classes.kind,
        "metadata": {"name": "mine", "namespace": "capi-system"},
        "spec": {"drain": {"behavior": "Skip"}},
    }
    providers.without_webhooks("cluster-api")
    providers.client.create(classes, body)


def test_deletion_waits_for_custom_resources(providers: Providers) -> None:
    with_an_object_of_its_kinds(providers)
    providers.client.delete(CORE.resource, Key("capi-system", "cluster-api"))
    providers.reconcile(*CORE_KEY)
    condition = providers.condition(providers.get(*CORE_KEY), "Deleting")
    assert condition["reason"] == "CustomResourcesExist"
    assert "1 MachineDrainRule" in condition["message"]
    assert not is_ready(providers.get(*CORE_KEY))
    assert "force-delete" in condition["message"]


def test_forced_deletion_removes_custom_resources(providers: Providers) -> None:
    with_an_object_of_its_kinds(providers)
    key = Key("capi-system", "cluster-api")
    annotations = {"metadata": {"annotations": {"capi-functions.dev/force-delete": "true"}}}
    providers.client.patch(CORE.resource, key, annotations)
    providers.client.delete(CORE.resource, key)

    def gone() -> bool:  # the API server takes its time for CRDs with objects, sometimes more than one look
        providers.reconcile(*CORE_KEY)
        return providers.client.find(CORE.resource, key) is None

    until(gone, "the provider is gone")
    assert providers.brought() == {}


def refused(providers: Providers, kind: ProviderKind, name: str, namespace: str, type_: str) -> tuple[str, str]:
    providers.reconcile(kind, name, namespace)
    condition = providers.condition(providers.get(kind, name, namespace), type_)
    assert condition["status"] == "False", condition
    return condition["reason"], condition["message"]


def test_other_providers_wait_for_the_core_provider(providers: Providers) -> None:
    kind, name, namespace, file = FOUR[3]
    providers.apply(kind, name, namespace, version=CURRENT, fetchConfig={"url": providers.url(file)})
    reason, _ = refused(providers, kind, name, namespace, "PreflightCheckPassed")
    assert reason == "WaitingForCoreProviderReady"


def test_missing_version_is_reported(providers: Providers) -> None:
    one(providers, version=CURRENT)
    before = manager(providers)["metadata"]["resourceVersion"]
    url = providers.url("core-components.yaml")
    providers.apply(*CORE_KEY, version="v1.14.99", fetchConfig={"url": url})
    reason, message = refused(providers, *CORE_KEY, "ProviderInstalled")
    assert reason == "ComponentsFetchError"
    assert "v1.14.99" in message
    assert manager(providers)["metadata"]["resourceVersion"] == before
    assert dig(providers.get(*CORE_KEY), "status.installedVersion") == CURRENT


def test_downgrade_is_rejected(providers: Providers) -> None:
    one(providers, version=CURRENT)
    providers.apply(*CORE_KEY, version=PREVIOUS, fetchConfig={"url": providers.url("core-components.yaml")})
    reason, message = refused(providers, *CORE_KEY, "PreflightCheckPassed")
    assert reason == "UnsupportedProviderDowngradeReason"
    assert CURRENT in message
    assert PREVIOUS in message


def test_missing_variables_are_reported(providers: Providers) -> None:
    providers.secret("variables", "capi-system", OTHER="x")
    providers.config_map("more", "capi-system", manifests="# ${MY_TOKEN} ${MY_OTHER:=x}")
    providers.releases.append(reduced(CURRENT))
    references = {"configSecret": {"name": "variables"}, "additionalManifests": {"name": "more"}}
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, version=CURRENT, fetchConfig=config, **references)
    reason, message = refused(providers, *CORE_KEY, "ProviderInstalled")
    assert reason == "ComponentsFetchError"
    assert "[MY_TOKEN]" in message
    providers.secret("variables", "capi-system", MY_TOKEN="hunter2")
    core = providers.until_ready(*CORE_KEY)
    assert dig(core, "status.installedVersion") == CURRENT
    assert "hunter2" not in str(core)
