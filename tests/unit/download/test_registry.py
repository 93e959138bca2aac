"""OCI registries: pull and push against a real one; unusable and hostile answers from a made one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.download import Listing, ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.download.ingest import IngestLimits, ingest
from shared.download.registry import INDEX, MANIFEST, TITLE, Descriptor, Layer, NotInRegistry, Registry
from shared.releases.sources.oci import ARTIFACT_TYPE, OciSource, media_type
from shared.releases.sources.urls import from_url
from tests.support.http_server import HttpServer, Request, Response
from tests.support.registry import PASSWORD, USER, StartRegistry, certificate, htpasswd

TAG, NAME = "docker-ferrol-1-27-v1", "org/stacks"
CONTENT = {"metadata.yaml": b"meta", "docker-ferrol-1-27-cluster-class-v1.tgz": bytes(300_000), "empty": b""}
LAYERS = [Layer(name, data, media_type(name)) for name, data in CONTENT.items()]
KNOWN = Access(username=USER, password=PASSWORD)


def _push(host: str, tag: str = TAG, access: Access | None = None, **options: bool) -> str:
    with Registry(host, NAME, access or Access(), **options) as registry:
        return registry.push(tag, LAYERS, artifact_type=ARTIFACT_TYPE, annotations={"hash": "abcdefg"})


def _received(source: Any, tag: str = TAG) -> dict[str, bytes]:
    return {file.name: file.data for file in ingest(source.fetch(tag), IngestLimits())}


# -- a real registry -------------------------------------------------------------------------------------------------


def test_pushed_artifact_can_be_pulled(registry: str) -> None:
    digest = _push(registry, plain=True)
    source = from_url(f"oci+http://{registry}/{NAME}")
    assert _received(source) == CONTENT
    with Registry(registry, NAME, plain=True) as client:
        manifest = client.manifest(TAG)
        assert client.manifest(digest) == manifest
    assert (manifest.digest, manifest.artifact_type, manifest.annotations) == (
        digest,
        ARTIFACT_TYPE,
        {"hash": "abcdefg"},
    )
    assert [layer.media_type for layer in manifest.layers] == [
        "application/vnd.scs.metadata.layer.v1+yaml",
        "application/vnd.scs.cluster-class.v1.tar+gzip",
        "application/octet-stream",
    ]


def test_pushing_again_replaces_the_tag(registry: str) -> None:
    assert _push(registry, plain=True) == _push(registry, plain=True)
    with Registry(registry, NAME, plain=True) as client:
        client.push(TAG, [Layer("a", b"new", "text/plain")], artifact_type="x/y")
    assert _received(OciSource(registry, NAME, plain=True)) == {"a": b"new"}


def test_tags_are_listed(registry: str) -> None:
    source = OciSource(registry, NAME, plain=True)
    assert source.list() == []
    for tag in ("b", "a"):
        _push(registry, tag, plain=True)
    assert source.list() == ["a", "b"]


def test_absent_repository_or_tag_is_not_found(registry: str) -> None:
    _push(registry, plain=True)
    for tag in ("nope", "", "../x", "a b"):
        with pytest.raises(ReleaseNotFound, match=f"in {registry}/{NAME}"):
            _received(OciSource(registry, NAME, plain=True), tag)
    with pytest.raises(ReleaseNotFound):
        _received(OciSource(registry, "other", plain=True))
    with Registry(registry, NAME, plain=True) as client, pytest.raises(SourceError, match="HTTP 404"):
        list(client.blob(Descriptor("x", f"sha256:{'0' * 64}", 1, "")))


def test_basic_authentication_needs_user_name_and_password(start_registry: StartRegistry, tmp_path: Path) -> None:
    host = start_registry(auth=htpasswd(tmp_path))
    with pytest.raises(SourceError, match="it needs a token, or a user name and password"):
        _push(host, plain=True)
    _push(host, access=KNOWN, plain=True)
    assert _received(OciSource(host, NAME, KNOWN, plain=True)) == CONTENT
    assert OciSource(host, NAME, KNOWN, plain=True).list() == [TAG]
    for ask in (lambda s: s.list(), _received):
        with pytest.raises(SourceError, match=r"refuses access .*: the credentials are not accepted") as caught:
            ask(OciSource(host, NAME, Access(username=USER, password="wr0ng"), plain=True))
        assert not caught.value.transient
        assert "wr0ng" not in str(caught.value)


def test_registry_with_its_own_ca_is_trusted_by_ca_crt(start_registry: StartRegistry, tmp_path: Path) -> None:
    tls, ca = certificate(tmp_path)
    host = start_registry(http={"tls": tls}, auth=htpasswd(tmp_path))
    access = Access(username=USER, password=PASSWORD, ca=ca)
    _push(host, access=access)
    assert _received(OciSource(host, NAME, access)) == CONTENT
    with pytest.raises(SourceError, match="is not trusted"):
        _received(OciSource(host, NAME, KNOWN))


# -- a token server of the test's own, and the real registry ----------------------------------------------------------


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[HttpServer]:
    """Hands out tokens that the registry takes, signed with tls.key, to USER."""
    certificate(tmp_path)

    def answer(request: Request) -> Response:
        if request.authorization != KNOWN.basic:
            return Response(401)
        query = parse_qs(urlsplit(request.path).query)
        return Response(body=json.dumps({"token": _signed(tmp_path, query["service"][0], query["scope"][0])}).encode())

    with HttpServer(answer) as site:
        yield site


def _signed(folder: Path, service: str, scope: str) -> str:
    """A token in the format of the registry's own documentation: a JWT with the certificate in its header."""
    import base64
    import time

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    der = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes()).public_bytes(serialization.Encoding.DER)
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    kind, name, actions = scope.split(":")
    now = int(time.time())
    header = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
    claims = {
        "iss": "test",
        "sub": USER,
        "aud": service,
        "exp": now + 60,
        "nbf": now - 60,
        "iat": now,
        "jti": str(now),
        "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
    }
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def test_token_of_the_token_server_opens_the_registry(
    start_registry: StartRegistry, tokens: HttpServer, tmp_path: Path
) -> None:
    token = {"realm": f"{tokens.url}/token", "service": "test service", "issuer": "test"}
    host = start_registry(auth={"token": token | {"rootcertbundle": str(tmp_path / "ca.crt")}})
    _push(host, access=KNOWN, plain=True)
    assert len(tokens.requests) == 2  # to look, then to push
    assert _received(OciSource(host, NAME, KNOWN, plain=True)) == CONTENT
    assert OciSource(host, NAME, KNOWN, plain=True).list() == [TAG]
    assert len(tokens.requests) == 4
    with pytest.raises(SourceError, match=f"{tokens.url}/token refuses access"):
        _received(OciSource(host, NAME, plain=True))


# -- what a registry might say ----------------------------------------------------------------------------------------


def _challenged(realm: str) -> Response:
    return Response(401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="repository:a:pull"'})


def test_credentials_are_not_sent_without_tls(tmp_path: Path) -> None:
    _, ca = certificate(tmp_path)
    with (
        HttpServer(lambda _: Response(body=b'{"token": "x"}')) as foreign,
        HttpServer(lambda _: _challenged(foreign.url), tmp_path) as tls,
    ):
        source = OciSource(tls.host, NAME, Access(username=USER, password=PASSWORD, ca=ca))
        with pytest.raises(SourceError, match="without TLS") as caught:
            source.list()
        assert foreign.requests == []
    assert not caught.value.transient


def test_given_token_is_sent_to_the_registry_alone() -> None:
    with HttpServer(lambda _: Response(body=b"{}")) as foreign, HttpServer(lambda _: _challenged(foreign.url)) as site:
        with pytest.raises(SourceError, match="the credentials are not accepted"):
            OciSource(site.host, NAME, Access(token="t0ken"), plain=True).list()
        assert [asked.authorization for asked in site.requests] == ["Bearer t0ken"]
        assert foreign.requests == []


@pytest.mark.parametrize("realm", ["", "file:///etc/passwd", "//x"])
def test_invalid_token_server_is_refused(realm: str) -> None:
    with (
        HttpServer(lambda _: _challenged(realm)) as site,
        pytest.raises(SourceError, match="names a token server that is no"),
    ):
        OciSource(site.host, NAME, KNOWN, plain=True).list()


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"token": 1}', b'{"token": "a\\r\\nb: c"}', b'{"token": ""}'])
def test_answer_without_a_token_is_an_error(answer: bytes) -> None:
    with HttpServer(lambda _: Response(body=answer)) as tokens, HttpServer(lambda _: _challenged(tokens.url)) as site:
        with pytest.raises(SourceError, match=r"no token|JSON|like an OCI registry"):
            OciSource(site.host, NAME, KNOWN, plain=True).list()
        assert len(site.requests) == 1


def test_refused_token_is_requested_only_once() -> None:
    with (
        HttpServer(lambda _: Response(body=b'{"token": "x"}')) as tokens,
        HttpServer(lambda _: _challenged(tokens.url)) as site,
    ):
        with pytest.raises(SourceError, match="the credentials are not accepted"):
            OciSource(site.host, NAME, KNOWN, plain=True).list()
        assert (len(site.requests), len(tokens.requests)) == (2, 1)


def test_tags_of_all_pages_are_listed() -> None:
    """Debian's registry has them all on one."""
    pages = {
        "/v2/org/stacks/tags/list?n=1000": (
            b'{"tags": ["c", "b"]}',
            '</v2/org/stacks/tags/list?last=b&n=2>; rel="next"',
        ),
        "/v2/org/stacks/tags/list?last=b&n=2": (b'{"tags": ["a", 1, "../x"]}', "</more>; rel=next"),
        "/more": (b'{"tags": null}', ""),
    }

    def answer(request: Request) -> Response:
        body, link = pages[request.path]
        return Response(body=body, headers={"Link": link})

    with HttpServer(answer) as site:
        assert OciSource(site.host, NAME, plain=True).list() == ["a", "b", "c"]


def test_endless_pages_of_tags_are_limited() -> None:
    with HttpServer(lambda _: Response(body=b'{"tags": []}', headers={"Link": '</v2/>; rel="next"'})) as site:
        listed = OciSource(site.host, NAME, plain=True).list()
        assert len(site.requests) == 200
    assert isinstance(listed, Listing)
    assert (listed, listed.problem) == ((), f"http://{site.host}/v2/org/stacks/ lists more than 200 pages of tags")


def test_more_tags_than_the_limit_are_a_problem_of_the_list() -> None:
    tags = json.dumps({"tags": [f"t{number}" for number in range(10_050)]}).encode()
    with HttpServer(lambda _: Response(body=tags)) as site:
        listed = OciSource(site.host, NAME, plain=True).list()
    assert isinstance(listed, Listing)
    assert len(listed) == 10_000
    assert "lists more than 10000 tags" in listed.problem


@pytest.mark.parametrize("link", ["http://[", "file:///etc/passwd", "//[x]:y/"])
def test_malformed_page_of_tags_is_an_error(link: str) -> None:
    with HttpServer(lambda _: Response(body=b'{"tags": ["a"]}', headers={"Link": f'<{link}>; rel="next"'})) as site:
        with pytest.raises(SourceError, match=r"invalid URL|another host"):
            OciSource(site.host, NAME, plain=True).list()
        assert len(site.requests) == 1


def test_page_link_to_another_host_is_refused() -> None:
    with HttpServer(lambda _: Response(body=b'{"tags": ["a"]}')) as foreign, HttpServer(lambda _: Response()) as site:
        site.answer = lambda _: Response(body=b'{"tags": ["a"]}', headers={"Link": f'<{foreign.url}/v2/>; rel="next"'})
        with pytest.raises(SourceError, match="refers to another host"):
            OciSource(site.host, NAME, plain=True).list()
        assert foreign.requests == []


def test_blob_redirect_to_another_host_carries_no_credentials() -> None:
    manifest = _manifest()
    with HttpServer(lambda _: Response(body=b"data")) as storage, HttpServer(lambda _: Response()) as site:

        def answer(request: Request) -> Response:
            if "/blobs/" in request.path:
                return Response(307, b"", {"Location": f"{storage.url}/x?signed"})
            return Response(body=manifest, headers={"Content-Type": MANIFEST})

        site.answer = answer
        assert _received(OciSource(site.host, NAME, Access(token="t0ken"), plain=True)) == {"a": b"data"}
        assert storage.requests[0].authorization is None


def _layer(**changed: Any) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(b'data').hexdigest()}"
    return {"mediaType": "x/y", "digest": digest, "size": 4, "annotations": {TITLE: "a"}} | changed


def _manifest(**changed: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [_layer()]} | changed).encode()


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"", "is not a manifest"),
        (b"[" * 100_000, "is not a manifest"),
        (b"[]", "does not answer like an OCI registry"),
        (_manifest(mediaType=INDEX), "is an index of several artifacts"),
        (json.dumps({"manifests": []}).encode(), "is an index of several artifacts"),
        (_manifest(mediaType="x" * 100_000), r"^.{1000}\.\.\.$"),
        (_manifest(mediaType="x/y"), "is of type 'x/y', which is not an artifact"),
        (_manifest(layers=None), "has no layers"),
        (_manifest(layers=[1]), "does not answer like an OCI registry"),
        (_manifest(layers=[_layer(annotations=None)]), "so its file has no name"),
        (_manifest(layers=[_layer(digest="sha256:../../x")]), "has no sha256 digest"),
        (_manifest(layers=[_layer(digest="sha512:" + "0" * 128)]), "has no sha256 digest"),
        (_manifest(layers=[_layer(size="4")]), "has no size"),
        (_manifest(layers=[_layer(size=-1)]), "has no size"),
        (_manifest(layers=[_layer(annotations={TITLE: "../a"})]), "not a plain name"),
        (_manifest(layers=[_layer(size=5)]), "4 bytes instead of 5"),
        (_manifest(layers=[_layer(digest="sha256:" + "0" * 64)]), "does not match its digest"),
        (_manifest(layers=[_layer(size=10**12)]), "too large"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_manifest_is_refused(manifest: bytes, message: str) -> None:
    def answer(request: Request) -> Response:
        return (
            Response(body=b"data")
            if "/blobs/" in request.path
            else Response(body=manifest, headers={"Content-Type": MANIFEST})
        )

    with HttpServer(answer) as site, pytest.raises(SourceError, match=message):
        _received(OciSource(site.host, NAME, plain=True))


def test_manifest_that_does_not_match_its_digest_is_a_transient_error() -> None:
    headers = {"Content-Type": MANIFEST, "Docker-Content-Digest": f"sha256:{'0' * 64}"}
    with (
        HttpServer(lambda _: Response(body=_manifest(), headers=headers)) as site,
        pytest.raises(SourceError) as caught,
    ):
        _received(OciSource(site.host, NAME, plain=True))
    assert "does not match its digest" in str(caught.value)
    assert caught.value.transient
    with (
        HttpServer(lambda _: Response(body=_manifest(), headers={"Content-Type": MANIFEST})) as site,
        Registry(site.host, NAME, plain=True) as client,
        pytest.raises(SourceError, match="does not match its digest"),
    ):
        client.manifest(f"sha256:{'0' * 64}")


def test_invalid_repository_or_tag_is_refused() -> None:
    for repository in ("../x", "A", "a//b", "a/", "a b", "a" * 600 + "!"):
        with pytest.raises(SourceError, match="is not a repository name"):
            Registry("127.0.0.1:1", repository)
    with Registry("127.0.0.1:1", NAME, plain=True) as client:
        with pytest.raises(NotInRegistry):
            client.manifest("sha256:x")
        with pytest.raises(SourceError, match="is not a tag"):
            client.push("a/b", [], artifact_type="x/y")
