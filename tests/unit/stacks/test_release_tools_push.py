"""`release push`, and back through the source that functions use: folder, bucket, registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.release_tools.folder import fetch_files, read_release
from infra.release_tools.push import PushError, push
from shared.download.access import Access
from shared.download.registry import Registry
from shared.releases.sources.urls import from_url
from shared.storage import ObjectStore
from tests.support.registry import PASSWORD, USER, StartRegistry, certificate, htpasswd
from tests.support.releases import write_release


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tmp_path / "made" / write_release(tmp_path / "made", "v1", values="a: b\n")


@pytest.fixture(params=["folder", "bucket", "registry"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a place for releases, where none is yet."""
    if request.param == "folder":
        return str(tmp_path / "deep" / "published")
    if request.param == "bucket":
        store: ObjectStore = request.getfixturevalue("object_store")
        return f"s3://{store.bucket}/some/prefix"
    return f"oci+http://{request.getfixturevalue('registry')}/org/stacks"


def test_pushed_release_is_fetched_unchanged(release: Path, place: str) -> None:
    _, files = read_release(release)
    assert push(release, place) == "pushed"
    assert fetch_files(from_url(place), release.name) == files
    assert from_url(place).list() == [release.name]
    assert push(release, place) == "unchanged"


def test_different_release_stays_unless_forced(release: Path, place: str) -> None:
    push(release, place)
    _, first = read_release(release)
    (release / "cluster-addon-values.yaml").unlink()
    (release / "topology-docker.yaml").write_text("kind: Cluster\n")
    with pytest.raises(PushError, match=r"\(cluster-addon-values.yaml, topology-docker.yaml\).*--force"):
        push(release, place)
    assert fetch_files(from_url(place), release.name) == first
    assert push(release, place, force=True) == "replaced"
    assert fetch_files(from_url(place), release.name) == read_release(release)[1]
    assert from_url(place).list() == [release.name]


def test_interrupted_push_to_bucket_is_completed(release: Path, object_store: ObjectStore) -> None:
    object_store.put(f"{release.name}/leftover", b"x", if_absent=True)
    url = f"s3://{object_store.bucket}"
    assert push(release, url) == "pushed"
    assert fetch_files(from_url(url), release.name) == read_release(release)[1]


def test_oci_artifact_has_the_media_types_of_csctl(release: Path, registry: str) -> None:
    (release / "hashes.json").write_text('{"clusterStack": "abcdefghij"}')
    push(release, f"oci+http://{registry}/stacks")
    with Registry(registry, "stacks", plain=True) as client:
        manifest = client.manifest(release.name)
    assert manifest.artifact_type == "application/vnd.scs.cluster-stacks.v1"
    assert manifest.annotations == {"kubernetesVersion": "v1.36.3", "hash": "abcdefg"}
    assert {layer.name for layer in manifest.layers} == {path.name for path in release.iterdir()}


def test_command_pushes_with_credentials(release: Path, start_registry: StartRegistry, tmp_path: Path) -> None:
    tls, ca = certificate(tmp_path)
    (tmp_path / "ca.crt").write_text(ca)
    host = start_registry(auth=htpasswd(tmp_path), http={"tls": {"certificate": tls["certificate"], "key": tls["key"]}})
    command = ["release", "push", str(release), f"oci://{host}/stacks", "--ca-file", str(tmp_path / "ca.crt")]
    login = ["--username", USER, "--password-stdin"]

    unknown = CliRunner().invoke(app, ["release", "push", str(release), f"oci://{host}/stacks"])
    assert "--ca-file takes the certificates" in unknown.stderr

    refused = CliRunner().invoke(app, [*command, *login], input="wrong-word\n")
    assert refused.exit_code == 1
    assert "credentials are not accepted" in refused.output
    assert "wrong-word" not in refused.output

    done = CliRunner().invoke(app, [*command, *login], input=f"{PASSWORD}\n")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"pushed: {release.name}")
    assert PASSWORD not in done.output
    source = from_url(f"oci://{host}/stacks", Access(username=USER, password=PASSWORD, ca=ca))
    assert fetch_files(source, release.name) == read_release(release)[1]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("oci+http://registry.test", "oci+http://registry.test"),
        ("oci://", "oci://"),
        ("https://web.test/releases", "https://web.test/releases"),
        ("github://github.com/org/repo", "github://github.com/org/repo"),
        ("foo://host/a", "foo://host/a"),
        ("oci://user:hidden@registry.test/a", "must have no credentials"),
        ("oci://registry.test/a?token=hidden", "must have no credentials"),
    ],
)
def test_url_that_cannot_be_pushed_to_is_refused(release: Path, url: str, shown: str) -> None:
    result = CliRunner().invoke(app, ["release", "push", str(release), url])
    assert result.exit_code == 1
    assert shown in result.stderr
    assert "a folder, s3://<bucket>/<prefix>, oci://<registry>/<repository> or, without TLS, oci+http" in result.stderr
    assert "github:, " not in result.stderr
    assert "hidden" not in result.stderr


def test_registry_without_tls_is_hinted_at(release: Path, registry: str) -> None:
    with pytest.raises(PushError, match=rf"without TLS it is oci\+http://{registry}/org/stacks"):
        push(release, f"oci://{registry}/org/stacks")
