"""The functions are killed before and after writes of a provider's life: the end is always the same.

A provider is installed, upgraded and deleted. While the functions are away, the user changes nothing, wants another
release, or deletes the provider.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Key, Object, dig
from shared.storage import ObjectStore
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.provider_releases import CLUSTER_ROLE_BINDING, config_map, publish, whole, widget
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until

VERSIONS = ("v1.1.0", "v1.1.1", "v1.1.2")
VARIANTS = tuple(itertools.product((True, False), ("", "another release", "deletion")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


class Journey:
    """The life of one provider, from nothing to two versions and back to nothing."""

    def __init__(self, providers: Providers, folder: Path, functions: KillableFunctions) -> None:
        self.name = f"p{uuid.uuid4().hex[:8]}"
        self.key = (INFRASTRUCTURE, self.name, f"{self.name}-system")
        self.resource, self.at = INFRASTRUCTURE.resource, Key(self.key[2], self.name)
        self.providers = replace(providers, deliver=functions.deliver, answers=[])
        self.functions = functions
        self.version = ""
        self.point: KillPoint | None = None
        for version in VERSIONS:
            # In the second version the binding refers to another role, so it has to be replaced.
            role = "other" if version == VERSIONS[1] else ""
            publish(folder, version, whole(self.name, version, role=role), INFRASTRUCTURE, f"org/{self.name}")

    def while_down(self) -> None:
        assert self.point is not None
        if self.providers.client.find(self.resource, self.at) is None:
            return
        if self.point.meanwhile == "another release":
            self.want(VERSIONS[2])
        if self.point.meanwhile == "deletion":
            self.remove(forced=True)

    def want(self, version: str) -> None:
        self.version = version
        url = self.providers.url(INFRASTRUCTURE.file, repository=f"org/{self.name}")
        self.providers.apply(*self.key, version=version, fetchConfig={"url": url})

    def remove(self, *, forced: bool = False) -> None:
        if forced:
            annotations = {"capi-functions.dev/force-delete": "true"}
            self.providers.client.patch(self.resource, self.at, {"metadata": {"annotations": annotations}})
        self.providers.client.delete(self.resource, self.at)

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        self.point = point
        self.functions.while_down = self.while_down
        self.functions.kill_at(point)
        uid = ""
        for version in VERSIONS[:2]:
            if not self.is_there(version):
                break
            self.want(version)
            if not self.reached():
                break
            self.check()
            uid = self.users_object(uid)
        self.end()
        return self.functions.end()

    def is_there(self, version: str) -> bool:
        return version == VERSIONS[0] or self.providers.client.find(self.resource, self.at) is not None

    def reached(self) -> bool:
        """Waits until the provider is ready. Returns False where it was deleted meanwhile."""

        def there() -> Object | None:
            found = self.providers.client.find(self.resource, self.at)
            return None if dig(found, "metadata.deletionTimestamp") else found

        def step() -> bool:
            self.providers.reconcile_with_workloads(*self.key)
            found = there()
            return found is None or is_ready(found)

        until(step, f"{self.name} {self.version}", details=lambda: self.providers.answers[-3:])
        return there() is not None

    def users_object(self, uid: str) -> str:
        """Creates an object of the provider's kind, or asserts that it is unchanged; returns its uid."""
        client, resource, key = self.providers.client, widget(self.name), Key(self.key[2], "mine")
        if not uid:
            body = {"apiVersion": resource.api_version, "kind": "Widget", "metadata": key._asdict(), "size": 7}
            return str(client.apply(resource, body, manager="user")["metadata"]["uid"])
        found = client.get(resource, key)
        assert (found["metadata"]["uid"], found["size"]) == (uid, 7)
        return uid

    def check(self) -> None:
        """Asserts that the objects are those of the release, unchanged, and that the inventory lists just them."""
        providers, version = self.providers, self.version
        provider = providers.get(*self.key)
        assert dig(provider, "status.installedVersion") == version
        names = [(entry["kind"], entry["name"]) for entry in dig(provider, "status.resources")]
        kinds = [name for name in names if name[0] not in ("Secret", "Provider")]
        wanted = whole(self.name, version, role="other" if version == VERSIONS[1] else "")
        objects = [obj for obj in wanted if not obj["apiVersion"].startswith("cert-manager.io")]
        assert sorted(kinds) == sorted((obj["kind"], obj["metadata"]["name"]) for obj in objects)
        assert len(names) == len(set(names)) == len(objects) + 2
        assert providers.brought(f"infrastructure-{self.name}") == providers.listed(*self.key)
        for name in (f"{self.name}-settings", f"{self.name}-of-{version}"):
            assert dig(providers.client.get(CONFIG_MAP, Key(self.key[2], name)), "data.value") == version
        binding = providers.client.get(CLUSTER_ROLE_BINDING, Key("", f"{self.name}-manager"))
        roles = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterRole"]
        assert [dig(binding, "roleRef.name")] == roles

    def end(self) -> None:
        providers = self.providers
        if providers.client.find(self.resource, self.at) is not None:
            self.remove(forced=True)

        def gone() -> bool:
            providers.reconcile_with_workloads(*self.key)
            return providers.client.find(self.resource, self.at) is None

        until(gone, f"the end of {self.name}", details=lambda: providers.answers[-3:])
        # Objects in the provider's namespace that were created before the inventory was written are left to the
        # garbage collector.
        secret = Key(self.key[2], f"{self.name}-webhook-cert")
        until(lambda: providers.client.find(SECRET, secret) is None, f"Secret {secret} gone")
        assert providers.brought(f"infrastructure-{self.name}") == {}


@pytest.mark.timeout(3600)
def test_provider_ends_the_same_when_functions_are_killed_at_a_write(
    providers: Providers,
    provider_plane: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    releases = tmp_path / "releases"
    providers.releases.append(releases)
    publish(releases, VERSIONS[0], [config_map("core", "1")])
    config = {"url": providers.url(CORE.file)}
    providers.apply(CORE, "cluster-api", "made-up-system", version=VERSIONS[0], fetchConfig=config)
    providers.until_ready(CORE, "cluster-api", "made-up-system")
    kubeconfig = local_control_plane.kubeconfig(provider_plane)
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path / "functions") as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(providers, releases, functions).take(point)

        check_kills(take, VARIANTS, pytestconfig, part)
