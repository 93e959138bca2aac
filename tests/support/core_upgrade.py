"""A management cluster with an older core, which is upgraded while our functions run.

The components are those of the releases. A manager of a core before v1.11 does not run here: it would convert nothing,
because such a core serves v1beta1 only. The test writes what that core leaves: the references of a Cluster with
topology, and its status.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from events.delivery import HttpDelivery
from infra import local_control_plane
from infra.local import crds
from infra.local.functions_server import FunctionsServer
from infra.local.local_run import PLANE, TOKEN, LocalRun
from infra.local.managers import free_ports, webhook_host
from infra.operations.providers.local_managers import VARIABLES
from shared import bounded_yaml
from shared.api.conditions import get_condition, is_true
from shared.api.provider import CORE, PROVIDER_LABEL, installed_version
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_CLASS, CONFIG_MAP, NAMESPACE, SECRET
from shared.components.webhooks import without_webhooks
from shared.event import change_event
from shared.kube import Client, Key, Object, Resource, connect, dig, key_of
from shared.kube.crds import CRD, definitions
from shared.providers.annotations import WEBHOOKS
from tests.support import external_cluster, objects
from tests.support.http_server import HttpServer, Request, Response
from tests.support.live_core import USER, AuditLog, audited
from tests.support.objects import manifest
from tests.support.real_providers import DOWNLOADS, PROVIDERS, components
from tests.support.releases import config_map, write_release
from tests.support.until import until

OLDER = Resource(CLUSTER.group, "v1beta1", CLUSTER.kind, CLUSTER.plural)
NEWER = replace(OLDER, version="v1beta2")
OLDER_CLASS = Resource(CLUSTER_CLASS.group, "v1beta1", CLUSTER_CLASS.kind, CLUSTER_CLASS.plural)
PROFILES = ("addons", "kubeconfig", "providers")
PROVIDER = Key("capi-system", "cluster-api")
WATCHED = "watched"
"""The value of the label of what core is to watch while objects stay stored in v1beta1."""
_TIME = "2026-01-01T00:00:00Z"
_CONDITIONS = ("Ready", "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized", "TopologyReconciled")


@dataclass
class UpgradedCore:
    """The management cluster; `kubeconfig` is that of the tests' user, for workload clusters, too."""

    run: LocalRun
    client: Client
    releases: Path
    kubeconfig: bytes
    audit: AuditLog
    url: str = ""
    """Where the webhooks of the manager are."""

    @property
    def functions(self) -> FunctionsServer:
        """The process of the functions."""
        assert self.run.services.functions is not None
        return self.run.services.functions

    def install(self, version: str) -> None:
        """Requests a version of core without a manager."""
        self._apply(version, "none", {"replicas": 0})

    def upgrade(self, version: str, *flags: str) -> None:
        """Requests a version of core with its manager, which gets the flags, too."""
        self.url = self.url or f"https://{webhook_host(self.run.plane)}:{next(free_ports(str(self.run.directory)))}"
        arguments = dict(flag.split("=") for flag in flags)
        self._apply(version, self.url, {"containers": [{"name": "manager", "args": arguments}]} if flags else {})

    def _apply(self, version: str, webhooks: str, deployment: Object) -> None:
        spec = {"version": version, "configSecret": VARIABLES._asdict()} | (
            {"deployment": deployment} if deployment else {}
        )
        body = manifest(CORE.resource, PROVIDER.name, PROVIDER.namespace, spec=spec)
        body["metadata"]["annotations"] = {WEBHOOKS: webhooks}
        self.client.apply(CORE.resource, body, manager="user")

    def migrate(self) -> None:
        """Removes the annotations by which core knows the definitions that it has looked at."""
        patch = {"metadata": {"annotations": {"crd-migration.cluster.x-k8s.io/observed-generation": None}}}
        for crd in self.client.list(CRD, selector=f"{PROVIDER_LABEL}=cluster-api"):
            self.client.patch(CRD, key_of(crd), patch, manager="user")

    def provider(self) -> Object:
        return self.client.get(CORE.resource, PROVIDER)

    def runs(self, version: str) -> bool:
        """Returns whether a version is installed, and its manager is ready."""
        found = self.provider()
        is_about = dig(found, "status.observedGeneration") == found["metadata"]["generation"]
        return is_about and installed_version(found) == version and is_true(dig(found, "status.conditions"), "Ready")

    def conversions(self) -> int:
        """Returns how often the webhook has converted Clusters from v1beta1 to v1beta2."""
        labels = 'crd_name="clusters.cluster.x-k8s.io",from_version="v1beta1",succeeded="true",to_version="v1beta2"'
        metric = f"apiserver_crd_conversion_webhook_duration_seconds_count{{{labels}}} "
        lines = self.client.text("/metrics").splitlines()
        return sum(int(line.removeprefix(metric)) for line in lines if line.startswith(metric))

    def stored_versions(self) -> set[tuple[str, ...]]:
        """Returns the versions that are stored, of all kinds of the group of Cluster."""
        found = self.client.list(CRD, selector=f"{PROVIDER_LABEL}=cluster-api")
        return {tuple(dig(crd, "status.storedVersions")) for crd in found if dig(crd, "spec.group") == CLUSTER.group}

    def create_cluster(self, key: Key, of_class: str) -> None:
        """Creates a Cluster in v1beta1, as an older core has left it, with what it refers to."""
        labels = {"cluster.x-k8s.io/cluster-name": key.name, "topology.cluster.x-k8s.io/owned": ""}
        spec: Object = {"topology": {"class": of_class, "version": "v1.36.0"}}
        for field, kind in (
            ("infrastructureRef", external_cluster.CLUSTER),
            ("controlPlaneRef", external_cluster.PLANE),
        ):
            content = {"spec": {"version": "v1.36.0"}} if kind == external_cluster.PLANE else {"spec": {}}
            annotations = {"cluster.x-k8s.io/cloned-from-name": of_class}
            metadata = {"labels": labels, "annotations": annotations}
            self.client.create(kind, manifest(kind, key.name, key.namespace, metadata=metadata, **content))
            reference = {"apiVersion": kind.api_version, "kind": kind.kind}
            spec[field] = {**reference, "name": key.name, "namespace": key.namespace}
        conditions = [{"type": type_, "status": "True", "lastTransitionTime": _TIME} for type_ in _CONDITIONS]
        status = {
            "phase": "Provisioned",
            "infrastructureReady": True,
            "controlPlaneReady": True,
            "observedGeneration": 1,
            "conditions": conditions,
        }
        labelled = {"labels": {"cluster.x-k8s.io/watch-filter": key.name}}
        self.client.create(OLDER, manifest(OLDER, key.name, key.namespace, metadata=labelled, spec=spec))
        self.client.patch(OLDER, key, {"status": status}, subresource="status", manager="manager")

    def create_class(self, name: str, cluster: Key) -> None:
        """Creates a ClusterClass in v1beta1, and its templates, for a Cluster."""
        *templates, newer = external_cluster.class_objects(name, cluster.namespace)
        spec = {field: {"ref": value["templateRef"]} for field, value in newer["spec"].items()}
        for kind, template in zip(
            (external_cluster.CLUSTER_TEMPLATE, external_cluster.PLANE_TEMPLATE), templates, strict=True
        ):
            self.client.create(kind, template)
        metadata = {"labels": {"cluster.x-k8s.io/watch-filter": cluster.name}}
        self.client.create(OLDER_CLASS, manifest(OLDER_CLASS, name, cluster.namespace, metadata=metadata, spec=spec))


@contextmanager
def older_core(folder: Path, environment: pytest.MonkeyPatch, versions: Sequence[str]) -> Iterator[UpgradedCore]:
    """Runs a cluster in which the first of the versions of core is installed, and our functions, in the block."""
    sources = [components(version) for version in versions]

    def answer(request: Request) -> Response:
        found = [source / request.path[1:] for source in sources if (source / request.path[1:]).is_file()]
        return Response(body=found[0].read_bytes()) if found else Response(404)

    (releases := folder / "releases").mkdir()
    plane = folder / "run" / PLANE
    with ExitStack() as cleanup:
        site = cleanup.enter_context(HttpServer(answer))
        for name, value in (("GITHUB_URL", site.url), ("GITHUB_API_URL", site.url), ("GOGC", "200")):
            environment.setenv(name, value)
        environment.setenv("KUBEBUILDER_ASSETS", str(audited(folder)))
        run = LocalRun(folder / "run", releases=releases, progress=print, profiles=PROFILES, get_helm=False)
        cleanup.callback(run.stop)
        local_control_plane.start(plane, owner=os.getpid(), progress=print, timeout=120)
        user = local_control_plane.add_user(plane, USER, ["system:masters"])
        client = cleanup.enter_context(closing(connect.from_kubeconfig(str(user))))
        # Before our functions start: a run installs kinds of v1beta2 where there are none.
        core_components = sources[0] / DOWNLOADS / versions[0] / PROVIDERS[0].file
        crds.install(client, without_webhooks(definitions(bounded_yaml.load_all(core_components.read_text()))))
        run.start()
        environment.delenv("KUBEBUILDER_ASSETS")
        features = {"CLUSTER_TOPOLOGY": "true", "EXP_RUNTIME_SDK": "true"}
        client.create(SECRET, objects.secret(VARIABLES.name, VARIABLES.namespace, **features))
        client.create(NAMESPACE, manifest(NAMESPACE, PROVIDER.namespace))
        external_cluster.install(client)
        core = UpgradedCore(run, client, releases, user.read_bytes(), AuditLog(folder / "audit.log"))
        core.install(versions[0])
        run.run_managers()
        until(lambda: installed_version(core.provider()) == versions[0], "installed", details=core.provider)
        yield core


def upgrade_beside_functions(folder: Path, environment: pytest.MonkeyPatch, versions: Sequence[str]) -> None:
    """Upgrades core to one version after the other, beside Clusters with addons.

    Core is to watch one of the two Clusters. So the other stays stored in v1beta1 until all objects are migrated.
    """
    watched, kept = Key("default", "watched"), Key("default", "kept")
    of_cluster = {key: Key(key.namespace, f"cluster-addon-{key.name}") for key in (watched, kept)}
    with older_core(folder, environment, versions) as core:
        client, functions = core.client, core.functions

        def serve() -> None:
            external_cluster.reconcile(client, watched.namespace, core.kubeconfig)

        def details() -> object:
            found = [client.find(CLUSTER_ADDON, addon) for addon in of_cluster.values()]
            return [dig(obj, "status.conditions") for obj in (*found, core.provider())]

        def wait(reached: Callable[[], object], what: str) -> None:
            until(reached, what, between=serve, details=details)

        def new_class(key: Key, release: str) -> str:
            objects_of_release = [config_map(f"addon-{key.name}", release, key.namespace)]
            name = write_release(core.releases, release, objects_of_release, stack=f"test-{key.name}-1-36")
            core.create_class(name, key)
            return name

        def has_addons(key: Key, release: str) -> bool:
            found, applied = (
                client.find(CLUSTER_ADDON, of_cluster[key]),
                client.find(CONFIG_MAP, Key(key.namespace, f"addon-{key.name}")),
            )
            return dig(found, "status.ready") is True and dig(applied, "data.k") == release

        for key in of_cluster:
            core.create_cluster(key, new_class(key, "v1"))
        wait(lambda: all(has_addons(key, "v1") for key in of_cluster), "addons are applied")
        assert core.stored_versions() == {("v1beta1",)}
        specs = {key: client.get(OLDER, key)["spec"] for key in of_cluster}
        began = client.get(CLUSTER_ADDON, of_cluster[watched])["metadata"]["resourceVersion"]

        for number, version in enumerate(versions[1:], 2):
            written = len(core.audit.writes())
            core.upgrade(version, "--skip-crd-migration-phases=StorageVersionMigration", f"--watch-filter={WATCHED}")
            wait(partial(core.runs, version), f"core {version} runs")
            wait(partial(is_available, core, watched), f"Available with {version}")
            older = {"spec": {"topology": {"class": new_class(watched, f"v{number}")}}}
            client.patch(OLDER, watched, older, manager="user")
            wait(partial(has_addons, watched, f"v{number}"), "addons of the new class are applied")
            # Functions that start now request v1beta2 first; the others remember v1beta1 for five minutes.
            functions.kill()
            functions.start()
            conversions = core.conversions()
            client.delete(CONFIG_MAP, Key(kept.namespace, f"addon-{kept.name}"))
            client.delete(CLUSTER_ADDON, of_cluster[kept])
            wait(partial(has_addons, kept, "v1"), "addons of the Cluster that is stored in v1beta1 are applied again")
            assert core.conversions() > conversions
            assert f"clusters/{kept.namespace}/{kept.name}" not in {name for _, name in core.audit.writes()[written:]}
            assert ("v1beta1", "v1beta2") in core.stored_versions()
        send_older_clusters(core, of_cluster)
        core.upgrade(versions[-1])
        wait(partial(core.runs, versions[-1]), "the manager runs without these flags")
        core.migrate()
        wait(lambda: core.stored_versions() == {("v1beta2",)}, "all objects are stored in v1beta2")
        wait(partial(is_available, core, kept), "core watches both")
        send_older_clusters(core, of_cluster)

        specs[watched]["topology"]["class"] = f"test-{watched.name}-1-36-v{len(versions)}"
        for key, spec in specs.items():
            after = client.get(OLDER, key)["spec"]
            assert has_fields(after, spec), f"the conversion and our functions keep each field: {spec}, now {after}"
        ready = {
            (get_condition(dig(found, "status.conditions"), "ClusterReady") or {}).get("status")
            for found in states(client, CLUSTER_ADDON, of_cluster[watched], began)
        }
        assert ready == {"True"}
        in_turns = core.audit.written_in_turns()
        assert in_turns == {}, f"who wrote what: {in_turns}"


def send_older_clusters(core: UpgradedCore, addons: Mapping[Key, Key]) -> None:
    """Sends Clusters in v1beta1, as an ApiServerSource for that version does: nothing is left to do."""
    deliver = HttpDelivery(core.functions.url, token=core.run.directory / TOKEN)
    for key, addon in addons.items():
        before = core.client.get(CLUSTER_ADDON, addon)
        for name in ("addon_create", "addon_apply", "kubeconfig"):
            answer = deliver(name, change_event(core.client.get(OLDER, key), "update", source="/test"))
            assert answer.status == 204, (name, answer)
        assert core.client.get(CLUSTER_ADDON, addon) == before
    deliver.close()


def is_available(core: UpgradedCore, key: Key) -> bool:
    found = core.client.get(NEWER, key)
    available = get_condition(dig(found, "status.conditions"), "Available") or {}
    generation = found["metadata"]["generation"]
    return available.get("status") == "True" and available.get("observedGeneration") == generation


def has_fields(found: object, wanted: object) -> bool:
    """Returns whether an object has all fields of another one, with equal values; a conversion may add empty ones."""
    if not isinstance(wanted, Mapping):
        return found == wanted
    return isinstance(found, Mapping) and all(has_fields(found.get(name), value) for name, value in wanted.items())


def states(client: Client, resource: Resource, key: Key, since: str) -> Iterator[Object]:
    """Yields the states of an object from after a resourceVersion until now."""
    now = client.get(resource, key)["metadata"]["resourceVersion"]
    for event in client.watch(resource, key.namespace, version=since):
        if event["object"]["metadata"]["name"] == key.name:
            yield event["object"]
            if event["object"]["metadata"]["resourceVersion"] == now:
                return
