"""The functions are killed at writes of a provider's upkeep: the end is always the same, and no object is lost.

A provider's objects drift, and are repaired; its certificate is renewed; an upgrade removes the version in which the
objects of its kind are stored. Then the provider is deleted.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.certificates import CertificateAuthority
from shared.kube import Key, Object, deleting, dig
from shared.kube.crds import CRD
from shared.storage import ObjectStore
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.provider_releases import WEBHOOKS, config_map, crd, publish, whole, widget
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until

RELEASES = {"v1.1.0": ("v1", "v1alpha1"), "v1.2.0": ("v1",)}
"""The versions of the kind in each release; objects are stored in the last one."""
VARIANTS = ((True, ""), (False, ""), (False, "deletion"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


class Journey:
    """The later life of one provider, with objects of its kind."""

    def __init__(self, providers: Providers, folder: Path, functions: KillableFunctions) -> None:
        self.name = f"u{uuid.uuid4().hex[:8]}"
        self.key = (INFRASTRUCTURE, self.name, f"{self.name}-system")
        self.at = Key(self.key[2], self.name)
        self.providers, self.client = replace(providers, deliver=functions.deliver, answers=[]), providers.client
        self.functions = functions
        self.resync = False
        self.version = ""
        for version in RELEASES:
            publish(folder, version, self.objects(version), INFRASTRUCTURE, f"org/{self.name}")

    def objects(self, version: str) -> list[Object]:
        return [crd(self.name, *RELEASES[version]), *whole(self.name, version)[1:]]

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        self.functions.while_down = lambda: self.delete() if point and point.meanwhile == "deletion" else None
        self.functions.kill_at(point)
        self.want("v1.1.0")
        theirs: list[Object] = []
        self.until(lambda: self.deleted() or self.ready(), "v1.1.0")
        if not self.deleted():
            theirs = [self.create_widget(f"w{number}") for number in range(3)]
            self.check()
            self.drift()
        if not self.deleted():
            self.check()
            self.renew()
        if not self.deleted():
            self.check()
            self.want("v1.2.0")
            self.until(lambda: self.deleted() or self.ready(), "v1.2.0")
        if not self.deleted():
            self.check()
            definition = self.client.get(CRD, Key("", f"widgets.{self.name}.example.com"))
            assert dig(definition, "status.storedVersions") == ["v1"]
            live = {obj["metadata"]["name"]: obj for obj in self.client.list(widget(self.name), self.key[2])}
            identities = [(obj["metadata"]["uid"], obj["size"]) for obj in theirs]
            assert [(obj["metadata"]["uid"], obj["size"]) for _, obj in sorted(live.items())] == identities
            self.delete()
        self.until(lambda: self.client.find(INFRASTRUCTURE.resource, self.at) is None, "the end")
        until(lambda: self.secret() is None, "the Secret of the certificate is gone")
        assert self.providers.brought(f"infrastructure-{self.name}") == {}
        return self.functions.end()

    # -- what happens to the provider --------------------------------------------------------------------------------

    def want(self, version: str) -> None:
        self.version = version
        url = self.providers.url(INFRASTRUCTURE.file, repository=f"org/{self.name}")
        self.providers.apply(*self.key, version=version, fetchConfig={"url": url})

    def create_widget(self, name: str) -> Object:
        resource = widget(self.name, "v1alpha1")
        metadata = {"name": name, "namespace": self.key[2]}
        body = {"apiVersion": resource.api_version, "kind": "Widget", "metadata": metadata, "size": int(name[1:])}
        return self.client.create(resource, body, manager="user")

    def drift(self) -> None:
        """A user deletes an object and changes another one; a resync repairs both."""
        self.client.delete(CONFIG_MAP, Key(self.key[2], f"{self.name}-of-{self.version}"))
        changed = {"data": {"value": "drifted"}}
        self.client.patch(CONFIG_MAP, Key(self.key[2], f"{self.name}-settings"), changed, manager="user")
        self.resync = True
        wanted = {f"{self.name}-of-{self.version}": self.version, f"{self.name}-settings": self.version}
        self.until(
            lambda: self.deleted() or (self.values() == wanted and self.is_recorded() and self.ready()), "the repair"
        )
        self.resync = False

    def renew(self) -> None:
        """The certificate gets old, and is renewed."""
        ca = CertificateAuthority.generate("old CA", timedelta(days=30))
        host = f"{self.name}-webhook.{self.key[2]}.svc"
        pair = ca.issue(host, dns=[host], server=True, valid_for=timedelta(days=30))
        old = {"ca.crt": ca.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
        data = {name: base64.b64encode(value).decode() for name, value in old.items()}
        self.client.patch(SECRET, Key(self.key[2], f"{self.name}-webhook-cert"), {"data": data})
        due = {"status": {"target": {"renewAt": "2020-01-01T00:00:00Z"}}}
        self.client.patch(INFRASTRUCTURE.resource, self.at, due, subresource="status")

        def renewed() -> bool:
            secret = self.secret() or {}
            is_new = dig(secret, ("data", "tls.crt")) != data["tls.crt"]
            return is_new and self.bundle() == dig(secret, ("data", "ca.crt")) and self.ready()

        self.until(lambda: self.deleted() or renewed(), "a new certificate")
        assert self.deleted() or dig(self.providers.get(*self.key), "status.target.renewAt") > "2026"

    def delete(self) -> None:
        if self.client.find(INFRASTRUCTURE.resource, self.at) is None:
            return
        annotations = {"capi-functions.dev/force-delete": "true"}
        self.client.patch(INFRASTRUCTURE.resource, self.at, {"metadata": {"annotations": annotations}})
        self.client.delete(INFRASTRUCTURE.resource, self.at)

    # -- events ------------------------------------------------------------------------------------------------------

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, f"{self.name}: {what}", between=self.turn, details=lambda: self.providers.answers[-3:])

    def turn(self) -> None:
        self.providers.reconcile(*self.key, resync=self.resync)
        self.providers.reconcile_with_workloads(*self.key)

    # -- what is there then ------------------------------------------------------------------------------------------

    def deleted(self) -> bool:
        found = self.client.find(INFRASTRUCTURE.resource, self.at)
        return found is None or deleting(found)

    def ready(self) -> bool:
        provider = self.providers.get(*self.key)
        return is_ready(provider) and dig(provider, "status.installedVersion") == self.version

    def secret(self) -> Object | None:
        return self.client.find(SECRET, Key(self.key[2], f"{self.name}-webhook-cert"))

    def bundle(self) -> str:
        webhook = self.client.get(WEBHOOKS, Key("", f"{self.name}-validating"))
        return str(dig(webhook, "webhooks")[0]["clientConfig"].get("caBundle", ""))

    def values(self) -> dict[str, str]:
        found = {obj["metadata"]["name"]: obj for obj in self.client.list(CONFIG_MAP, self.key[2])}
        return {name: dig(obj, "data.value", "") for name, obj in found.items() if name.startswith(self.name)}

    def is_recorded(self) -> bool:
        """Returns whether the inventory lists just the provider's objects, as they are now."""
        return self.providers.brought(f"infrastructure-{self.name}") == self.providers.listed(*self.key)

    def check(self) -> None:
        """Asserts that the objects are those of the release, and that the inventory lists just them."""
        assert self.values() == {f"{self.name}-of-{self.version}": self.version, f"{self.name}-settings": self.version}
        assert self.is_recorded()
        entries = dig(self.providers.get(*self.key), "status.resources")
        wanted = [obj for obj in self.objects(self.version) if not obj["apiVersion"].startswith("cert-manager.io")]
        assert len(entries) == len({(one["kind"], one["name"]) for one in entries}) == len(wanted) + 2
        assert self.bundle() == dig(self.secret(), ("data", "ca.crt"))


@pytest.mark.timeout(3600)
def test_upkeep_ends_the_same_when_functions_are_killed_at_a_write(
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
    publish(releases, "v1.1.0", [config_map("core", "1")])
    config = {"url": providers.url(CORE.file)}
    providers.apply(CORE, "cluster-api", "made-up-system", version="v1.1.0", fetchConfig=config)
    providers.until_ready(CORE, "cluster-api", "made-up-system")
    kubeconfig = local_control_plane.kubeconfig(provider_plane)
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path / "functions") as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(providers, releases, functions).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=5)
