"""Control planes as other projects use them: the Python API, the pytest plugin, and `capi-functions local`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml

from infra.local_control_plane import ControlPlane, ControlPlaneError
from infra.local_control_plane.binaries import EXECUTABLES, locate
from infra.local_control_plane.cache import cache_directory
from infra.local_control_plane.modules import module_of
from shared.api import resources
from shared.api.resources import CLUSTER_ROLE, CONFIG_MAP, WEBHOOK_CONFIGURATIONS
from shared.kube import ApiError, Client, Key, Resource, connect
from shared.kube.crds import CRD
from tests.support import processes
from tests.support.command_line import CLI, await_end
from tests.support.http_server import HttpServer, Request, Response
from tests.support.objects import manifest, widgets_crd
from tests.support.packages import package_of
from tests.support.until import until

PROJECT = Path(__file__).parents[3]
BINDING = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)


def client(kubeconfig: Path) -> Client:
    return connect.from_kubeconfig(str(kubeconfig))


def test_flags_replace_ours_and_output_is_attached(capsys: pytest.CaptureFixture[str]) -> None:
    etcd_flags, api_server_flags = ["log-level=info"], ["--service-cluster-ip-range=127.99.0.0/16"]
    with ControlPlane(etcd_flags=etcd_flags, api_server_flags=api_server_flags, attach_output=True) as plane:
        with closing(client(plane.kubeconfig)) as admin:
            found = until(lambda: admin.find(resources.SERVICE, Key("default", "kubernetes")), "the Service")
        assert found["spec"]["clusterIP"] == "127.99.0.1"
    err = capsys.readouterr().err
    assert '"level":"info"' in err, "etcd logs warnings only without the flag"
    assert "Serving securely" in err


def test_flag_that_a_server_does_not_have_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match="unknown flag: --nope"):
        ControlPlane(tmp_path / "plane", api_server_flags=["nope=1"]).start()


def test_control_plane_lives_as_long_as_the_block(tmp_path: Path) -> None:
    with ControlPlane() as plane:
        folder = plane.directory
        admin = client(plane.kubeconfig)
        admin.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "default"}, "data": {"k": "1"}})
        crd = widgets_crd("example.org")
        plane.install_crds(crd)
        names, group = crd["spec"]["names"], crd["spec"]["group"]
        widgets = Resource(group, crd["spec"]["versions"][0]["name"], names["kind"], names["plural"])
        assert list(admin.list(widgets)) == []
        url = plane.url
        assert plane.restart().phase == "ready"
        assert plane.url == url
        assert admin.get(CONFIG_MAP, Key("default", "a"))["data"] == {"k": "1"}
        _expect_users(plane, admin)
        _expect_webhooks(plane, tmp_path / "webhooks", admin)
        _expect_definitions_of_files(plane, tmp_path / "definitions", admin)
        with pytest.raises(ControlPlaneError, match="does not exist"):
            plane.install_crds(tmp_path / "nowhere")
        (tmp_path / "empty.yaml").write_text("kind: ConfigMap\n")
        with pytest.raises(ControlPlaneError, match="contains no CustomResourceDefinition"):
            plane.install_crds(tmp_path)
        admin.close()
    assert not folder.exists()
    await_end(folder)


def _expect_definitions_of_files(plane: ControlPlane, folder: Path, admin: Client) -> None:
    """Of YAML and JSON, beside other files; one definition is not served, which is not waited for."""
    folder.mkdir()
    definitions = [widgets_crd(f"{name}.example.org") for name in ("yaml", "yml", "json")]
    definitions[0]["spec"]["versions"][0]["served"] = False
    (folder / "a.yaml").write_text(f"kind: ConfigMap\n---\n{yaml.safe_dump(definitions[0])}")
    (folder / "b.yml").write_text(yaml.safe_dump(definitions[1]))
    (folder / "c.json").write_text(json.dumps(definitions[2]))
    (folder / "README.md").write_text("no: [YAML")
    plane.install_crds(folder)
    assert [admin.get(CRD, Key("", crd["metadata"]["name"])) for crd in definitions]


def _expect_users(plane: ControlPlane, admin: Client) -> None:
    """Users have the rights of their groups."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    admin.create(CLUSTER_ROLE, {"metadata": {"name": "readers"}, "rules": rules})
    role = {"apiGroup": CLUSTER_ROLE.group, "kind": "ClusterRole", "name": "readers"}
    subject = {"apiGroup": CLUSTER_ROLE.group, "kind": "Group", "name": "readers"}
    admin.create(BINDING, {"metadata": {"name": "readers"}, "roleRef": role, "subjects": [subject]})
    reader, stranger = (client(plane.add_user(name, groups)) for name, groups in (("alice", ["readers"]), ("bob", [])))

    def reads() -> bool:
        with suppress(ApiError):  # until the authorizer knows the role
            return bool(list(reader.list(CONFIG_MAP, "default")))
        return False

    until(reads, "the right of the group")
    with pytest.raises(ApiError, match='User "bob" cannot list'):
        list(stranger.list(CONFIG_MAP, "default"))
    for each in (reader, stranger):
        each.close()
    with pytest.raises(ValueError, match="must be a file name"):
        plane.add_user("../bob")


CONVERTED = "converted.example.org"
SERVICE = {"namespace": "default", "name": "webhooks"}


def _expect_webhooks(plane: ControlPlane, folder: Path, admin: Client) -> None:
    """One denies, one converts, three are about a kind that nobody creates.

    Without their server errors name its URL, and the control plane still starts.
    """
    crd = widgets_crd(CONVERTED)
    old, new = (Resource(CONVERTED, version, "Widget", "widgets") for version in ("v1", "v2"))
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False})
    called = {"clientConfig": {"service": {**SERVICE, "path": "/convert"}}, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": called}
    rule = {"apiGroups": [CONVERTED], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}
    webhook = {
        "name": "deny.example.org",
        "clientConfig": {"service": {**SERVICE, "path": "/deny"}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    folder.mkdir()
    for resource in WEBHOOK_CONFIGURATIONS:
        unused = {**webhook, "rules": [{**rule, "resources": ["gadgets"]}]}
        deny = webhook if resource.kind.startswith("Validating") else unused
        both = [{**manifest(resource, name), "webhooks": [one]} for name, one in (("deny", deny), ("other", unused))]
        (folder / f"{resource.plural}.yaml").write_text(yaml.safe_dump_all(both))

    def answer(request: Request) -> Response:
        review = json.loads(request.body)
        asked = review["request"]
        if request.path.startswith("/convert"):
            converted = [{**obj, "apiVersion": asked["desiredAPIVersion"]} for obj in asked["objects"]]
            response = {"convertedObjects": converted, "result": {"status": "Success"}}
        else:
            response = {"allowed": asked["name"] != "bad", "status": {"message": "Always denied"}}
        body = json.dumps({**review, "response": {"uid": asked["uid"], **response}}).encode()
        return Response(body=body, headers={"Connection": "close"})  # an open one would outlive the server

    def refusal(name: str) -> str:
        """Returns why a Widget is not created."""
        try:
            admin.create(old, manifest(old, name, "default"))
        except ApiError as error:
            return str(error)
        admin.delete(old, Key("default", name))
        return ""

    with HttpServer(answer, plane.webhook_certificates()) as server:
        url = f"https://localhost:{server.port}"
        plane.install_webhooks(crd, folder, url=url)
        for resource in WEBHOOK_CONFIGURATIONS:
            called_at = {
                obj["metadata"]["name"]: obj["webhooks"][0]["clientConfig"]["url"] for obj in admin.list(resource)
            }
            assert called_at == dict.fromkeys(("deny", "other"), f"{url}/deny")
        # The API server calls a new webhook after a moment.
        until(lambda: 'webhook "deny.example.org" denied the request: Always denied' in refusal("bad"), "denied")
        admin.create(old, manifest(old, "good", "default"))
        assert admin.get(new, Key("default", "good"))["apiVersion"] == new.api_version
    assert f"{url}/deny" in refusal("good-too")
    assert plane.restart().phase == "ready"
    with pytest.raises(ApiError, match=f"{url}/convert"):
        admin.get(new, Key("default", "good"))
    assert admin.get(old, Key("default", "good"))["apiVersion"] == old.api_version, "it is stored as v1"


def test_failed_block_ends_the_control_plane(tmp_path: Path) -> None:
    def fail(plane: ControlPlane) -> None:
        with plane:
            raise RuntimeError("the test failed")

    with pytest.raises(RuntimeError, match="the test failed"):
        fail(ControlPlane(tmp_path / "plane"))
    await_end(tmp_path / "plane")
    assert (tmp_path / "plane").exists(), "data of a named folder stay"


def test_pytest_plugin_provides_fixtures_for_other_projects(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(
        "from shared.kube import connect\n"
        "def test_api_server_answers(kubeconfig, control_plane, workload):\n"
        "    assert connect.from_kubeconfig(str(kubeconfig)).text('/readyz') == 'ok'\n"
        "    assert workload.url != control_plane.url\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base")]
    plugins = [] if _is_published() else ["-p", "infra.pytest_plugin"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = processes.run(
        [*command, *plugins, "test_theirs.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    await_end(tmp_path / "base")


def _is_published() -> bool:
    from importlib.metadata import entry_points

    return any(point.value == "infra.pytest_plugin" for point in entry_points(group="pytest11"))


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the named control planes, which are ended after the test."""
    folder = tmp_path / "planes"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "binaries").symlink_to(cache_directory() / "binaries")
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPI_FUNCTIONS_PLANES", str(folder))
    yield folder
    command("down", "--all")
    await_end(folder)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run([*CLI, "local", *arguments], capture_output=True, text=True, check=False)


def test_named_control_planes_run_side_by_side(local: Path) -> None:
    assert "no control plane in" in command("status").stdout
    archive = package_of(local.parent / "cluster-api.zip", locate(EXECUTABLES, progress=print))
    started = [command("up", "one"), command("up", "two", "--from", str(archive))]
    assert [done.returncode for done in started] == [0, 0], started
    assert started[0].stdout == f"export KUBECONFIG={local / 'one' / 'admin.kubeconfig'}\n"
    assert command("up", "one").stdout == started[0].stdout, "it runs already"
    found = json.loads(command("status", "-o", "json").stdout)
    assert {name: each["phase"] for name, each in found.items()} == {"one": "ready", "two": "ready"}
    assert found["one"]["url"] != found["two"]["url"]
    admin = client(Path(found["one"]["kubeconfig"]))
    admin.create(CONFIG_MAP, {"metadata": {"name": "kept", "namespace": "default"}})
    assert command("env", "one").stdout == started[0].stdout
    assert "etcd" in command("logs", "one", "--server", "etcd").stdout
    assert "unpacking" in started[1].stderr
    unknown = command("logs", "one", "--server", "nothing")
    assert (unknown.returncode, "there are: etcd, kube-apiserver, supervisor" in unknown.stderr) == (1, True)
    assert command("down", "one").returncode == 0
    assert [line.split()[:2] for line in command("status").stdout.splitlines()] == [
        ["one", "stopped"],
        ["two", "ready"],
    ]
    again = command("up", "one", "--kubernetes-version", "latest-on-disk")
    assert again.returncode == 0, again
    assert f"Kubernetes {module_of('kube-apiserver').version}" in again.stderr
    assert admin.find(CONFIG_MAP, Key("default", "kept")) is not None, "data survive a stop"
    admin.close()
    assert command("reset", "one", "--yes").returncode == 0
    assert not (local / "one").exists()
    absent = command("down", "one")
    assert (absent.returncode, "there is no control plane one; there are: two" in absent.stderr) == (1, True)


@pytest.mark.parametrize("name", ["../x", ".hidden"])
def test_names_are_file_names(local: Path, name: str) -> None:
    refused = command("up", name)
    assert refused.returncode == 2
    assert "must be a file name" in refused.stderr


def test_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAPI_FUNCTIONS_PLANES", str(tmp_path / "file"))
    done = command("up")
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
