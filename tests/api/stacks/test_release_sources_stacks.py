"""From the source of a ClusterStack to its ClusterClass, with a real registry that needs a login."""

from __future__ import annotations

import base64
from pathlib import Path

from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE, SECRET
from shared.download.access import HOSTS, Access
from shared.download.registry import Layer, Registry
from shared.releases.sources.oci import ARTIFACT_TYPE, media_type
from tests.support.http_server import HttpServer, Response
from tests.support.registry import PASSWORD, USER, StartRegistry, certificate, htpasswd
from tests.support.releases import STACK, write_release
from tests.support.stacks import CLASS, Stacks, classes

REPOSITORY = "team/stacks"


def _publish(host: str, access: Access, folder: Path, version: str) -> None:
    write_release(folder, version, class_templates=classes(version))
    tag = f"{STACK}-{version}"
    layers = [Layer(path.name, path.read_bytes(), media_type(path.name)) for path in (folder / tag).iterdir()]
    with Registry(host, REPOSITORY, access) as registry:
        registry.push(tag, layers, artifact_type=ARTIFACT_TYPE)


def test_cluster_stack_follows_its_own_registry(stacks: Stacks, start_registry: StartRegistry, tmp_path: Path) -> None:
    keys, built = tmp_path / "keys", tmp_path / "built"
    keys.mkdir()
    tls, ca = certificate(keys)
    host = start_registry(http={"tls": tls}, auth=htpasswd(keys))
    access = Access(username=USER, password=PASSWORD, ca=ca)
    data = {"username": USER, "password": PASSWORD, "ca.crt": ca}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    stacks.apply(SECRET, "access", data=encoded, metadata={"annotations": {HOSTS: host}})
    _publish(host, access, built, "v1")
    stacks.stack(sources=[{"url": f"oci://{host}/{REPOSITORY}", "secretRef": {"name": "access"}}])
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v1"]
    _publish(host, access, built, "v2")
    stacks.settle()
    assert f"{STACK}-v2" in stacks.names(CLASS)
    assert stacks.of_stack("Ready")["status"] == "True"
    kinds = (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLASS)
    listed = [list(stacks.client.list(kind, stacks.namespace)) for kind in kinds]
    assert PASSWORD not in str([listed, stacks.answers])


def test_cluster_stack_waits_for_retry_after_of_its_source(stacks: Stacks) -> None:
    """Whatever events come meanwhile; but another source is asked at once."""
    with (
        HttpServer(lambda _request: Response(429, headers={"Retry-After": "1800"})) as site,
        HttpServer(lambda _request: Response(404)) as other,
    ):
        stacks.stack(sources=[{"url": site.url}])
        first = stacks.look_at_stack()
        assert 1700 < (first.retry_after or 0) <= 1800
        sent = len(site.requests)
        assert sent > 0
        again = stacks.look_at_stack()
        assert 1700 < (again.retry_after or 0) <= 1800
        assert len(site.requests) == sent
        assert "limits requests" in stacks.of_stack("ReleasesSynced")["message"]
        stacks.stack(sources=[{"url": other.url}])
        stacks.look_at_stack()
        assert len(other.requests) > 0
