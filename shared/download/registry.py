"""Pulls from and pushes to one repository of an OCI registry, by the OCI distribution API.

Credentials are sent only over TLS, to the registry and to the token server that its challenge names, because anyone who
changes a plain response could name another token server.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

from shared.network import origin
from shared.redaction import redact_url

from . import signatures
from .access import Access
from .errors import SourceError
from .ingest import File, IngestLimits, Listing, ingest
from .web import HttpResponse, HttpSession, resolve_url

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
TITLE = "org.opencontainers.image.title"
"""The annotation that names a layer's file."""

_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_INDEXES = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
_ACCEPT = ", ".join((MANIFEST, _DOCKER_MANIFEST, *_INDEXES))
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(?<![A-Za-z_])([A-Za-z_]+)="([^"]*)"')
_NEXT = re.compile(r'<([^<>]*)>\s*;\s*rel="?next"?')
_SIGNATURE = "dev.cosignproject.cosign/signature"
_SIGNATURES = 16
_PAGES = 200
_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class Layer:
    """One file of an artifact, to be pushed."""

    name: str
    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The entry of a layer in a manifest; `digest` as "sha256:<hexadecimal>", `size` in bytes.

    `name` is empty for a layer without a title.
    """

    name: str
    digest: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """The image manifest of an artifact; `digest` is the digest of its bytes, as "sha256:<hexadecimal>"."""

    digest: str
    artifact_type: str
    annotations: Mapping[str, str]
    layers: tuple[Descriptor, ...]
    config_type: str = ""
    """The media type of the configuration."""


class NotInRegistry(SourceError):
    """The repository has no such tag or digest."""


@dataclass
class Registry:
    """A session with one repository; a context manager. All methods raise `SourceError`.

    `host` may have a port; `plain` is HTTP without TLS.
    """

    host: str
    repository: str
    access: Access = field(default_factory=Access)
    plain: bool = False

    def __post_init__(self) -> None:
        if not _REPOSITORY.fullmatch(self.repository):
            raise SourceError(f"{self.repository!r} is not a repository name", transient=False)
        # Docker Hub serves its API at another host than the one in its image names.
        host = "registry-1.docker.io" if self.host == "docker.io" else self.host
        self._base = f"{'http' if self.plain else 'https'}://{host}/v2/{self.repository}/"
        self._session = HttpSession(self.access.ca, insecure=self.access.insecure)
        if self.access.sends_secrets:
            self._session.require_tls(self._base)
        self._authorization = f"Bearer {self.access.token}" if self.access.token else ""

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    # -- pull ------------------------------------------------------------------------------------------------------

    def tags(self) -> Sequence[str]:
        """Returns the tags in the registry's order, as a `Listing` if some may be missing.

        A repository that does not exist has no tags.
        """
        tags: list[str] = []
        url = self._base + "tags/list?n=1000"
        for _ in range(_PAGES):
            reply = self._authorized(partial(self._session.get, url))
            if reply.status == 404:
                reply.close()
                return tags
            found = _mapping(self._ok(reply).json(), reply.url).get("tags") or []
            tags += [tag for tag in found if isinstance(tag, str) and _TAG.fullmatch(tag)]
            next_page = _NEXT.search(reply.headers.get("Link", ""))
            if len(tags) > _NAMES:
                return Listing(tags[:_NAMES], f"{redact_url(self._base)} lists more than {_NAMES} tags")
            if not next_page:
                return tags
            url = self._require_same_host(resolve_url(url, next_page[1]))
        return Listing(tags, f"{redact_url(self._base)} lists more than {_PAGES} pages of tags")

    def manifest(self, reference: str, *, titled: bool = True) -> ImageManifest:
        """Returns the manifest of a tag or digest; with `titled` each layer must have a title.

        Raises:
            NotInRegistry: The repository has no such tag or digest.
            SourceError: The registry fails, or the tag names an index of several artifacts.
        """
        data, digest, media_type, url = self._get_manifest(reference)
        return _manifest(data, digest, media_type, redact_url(url), titled)

    def signatures(self, digest: str) -> Iterator[tuple[bytes, str]]:
        """Yields content and signature, in base64, of the first signatures by cosign of the manifest with this digest.

        `Verifier.signs_artifact` judges them.
        """
        try:
            data, _, _, url = self._get_manifest(f"{digest.replace(':', '-')}{signatures.SUFFIX}")
        except NotInRegistry:
            return
        where = redact_url(url)
        for layer in _layers(_parse(data, where), where)[:_SIGNATURES]:
            signature = (layer.get("annotations") or {}).get(_SIGNATURE) if isinstance(layer, dict) else None
            if not isinstance(signature, str) or len(signature) > signatures.MAX_SIGNATURE:
                continue
            found = _descriptor(layer | {"annotations": {TITLE: "signature"}}, f"a signature in {where}")
            if found.size <= signatures.MAX_PAYLOAD:
                limits = IngestLimits(file=found.size, release=found.size)
                file = File(found.name, self.blob(found), found.size, found.digest.removeprefix("sha256:"))
                yield next(ingest([file], limits)).data, signature

    def _get_manifest(self, reference: str) -> tuple[bytes, str, str, str]:
        """Returns content, digest, media type and URL of a manifest."""
        if not (_TAG.fullmatch(reference) or _DIGEST.fullmatch(reference)):
            raise NotInRegistry(f"{reference!r} is not a tag", transient=False)
        url = f"{self._base}manifests/{reference}"
        reply = self._authorized(lambda header: self._session.get(url, header, accept=_ACCEPT))
        if reply.status == 404:
            reply.close()
            raise NotInRegistry(f"{redact_url(url)} does not exist", transient=False)
        media_type = self._ok(reply).headers.get("Content-Type", "").partition(";")[0].strip()
        data = reply.read()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        promised = reference if ":" in reference else reply.headers.get("Docker-Content-Digest", digest)
        if promised != digest:
            raise SourceError(f"{redact_url(url)} does not match its digest {promised}", transient=True)
        return data, digest, media_type, url

    def blob(self, layer: Descriptor) -> Iterator[bytes]:
        """Returns the content of a layer in chunks; the caller checks size and digest."""
        url = f"{self._base}blobs/{layer.digest}"
        reply = self._ok(self._authorized(lambda header: self._session.get(url, header)))
        yield from reply.chunks()

    # -- push ------------------------------------------------------------------------------------------------------

    def push(
        self, tag: str, layers: Sequence[Layer], *, artifact_type: str, annotations: Mapping[str, str] | None = None
    ) -> str:
        """Publishes an artifact under `tag`, replacing the artifact that has the tag. Returns the manifest's digest.

        The manifest is sent last, so an interrupted push changes nothing. Layers that the registry has are not sent.
        """
        if not _TAG.fullmatch(tag):
            raise SourceError(f"{tag!r} is not a tag", transient=False)
        config = self._put_blob(b"{}", EMPTY)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": artifact_type,
            "config": config,
            "layers": [
                self._put_blob(layer.data, layer.media_type) | {"annotations": {TITLE: layer.name}} for layer in layers
            ],
            "annotations": dict(annotations or {}),
        }
        data = json.dumps(manifest, separators=(",", ":")).encode()
        self._send("PUT", f"{self._base}manifests/{tag}", {"Content-Type": MANIFEST}, data).close()
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    def _put_blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        descriptor = {"mediaType": media_type, "digest": digest, "size": len(data)}
        url = f"{self._base}blobs/{digest}"
        present = self._authorized(
            lambda header: self._session.request("HEAD", url, authorization=header), actions="push"
        )
        present.close()
        if present.status == 200:
            return descriptor
        upload = self._send("POST", f"{self._base}blobs/uploads/", {}, b"")
        upload.close()
        place = resolve_url(upload.url, upload.headers.get("Location", ""))
        separator = "&" if urlsplit(place).query else "?"
        target = f"{self._require_same_host(place)}{separator}{urlencode({'digest': digest})}"
        self._send("PUT", target, {"Content-Type": "application/octet-stream"}, data).close()
        return descriptor

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        reply = self._authorized(
            lambda header: self._session.request(method, url, headers, header, body), actions="push"
        )
        return self._ok(reply)

    # -- access ----------------------------------------------------------------------------------------------------

    def _ok(self, reply: HttpResponse) -> HttpResponse:
        if not 200 <= reply.status < 300:
            raise reply.error(self._hint())
        return reply

    def _hint(self) -> str:
        given = self.access.token or self.access.username
        return "the credentials are not accepted" if given else "it needs a token, or a user name and password"

    def _authorized(self, send: Callable[[str], HttpResponse], *, actions: str = "pull") -> HttpResponse:
        """Returns the response to `send(Authorization header)`; answers one challenge with credentials or a token."""
        reply = send(self._authorization)
        challenge = reply.headers.get("WWW-Authenticate", "")
        if reply.status != 401 or not challenge or origin(reply.url) != origin(self._base):
            return reply
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self.access.username:
            authorization = self.access.basic
        elif scheme.lower() == "bearer" and not self.access.token:
            authorization = f"Bearer {self._token(dict(_CHALLENGE.findall(rest)), actions)}"
        else:
            return reply
        if authorization == self._authorization:
            return reply
        reply.close()
        self._authorization = authorization
        return send(authorization)

    def _token(self, challenge: Mapping[str, str], actions: str) -> str:
        realm = challenge.get("realm", "")
        try:
            scheme, *_ = origin(realm)
        except ValueError:
            raise SourceError(
                f"{redact_url(self._base)} names a token server that is not a URL", transient=False
            ) from None
        if scheme != "https" and not self.plain:
            raise SourceError(
                f"the token server {redact_url(realm)} would receive credentials without TLS", transient=False
            )
        permissions = "pull,push" if actions == "push" else "pull"
        query = {"scope": challenge.get("scope") or f"repository:{self.repository}:{permissions}"}
        if "service" in challenge:
            query["service"] = challenge["service"]
        separator = "&" if urlsplit(realm).query else "?"
        basic = self.access.basic if self.access.username else ""
        reply = self._ok(self._session.get(f"{realm}{separator}{urlencode(query)}", basic, accept="application/json"))
        body = _mapping(reply.json(), realm)
        token = body.get("token") or body.get("access_token")
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise SourceError(f"the token server {redact_url(realm)} returns no token", transient=True)
        return token

    def _require_same_host(self, url: str) -> str:
        """Returns a URL that the registry sent. Raises `SourceError` for another host, as it would get credentials."""
        try:
            same = origin(url) == origin(self._base)
        except ValueError:
            same = False
        if not same:
            raise SourceError(f"{redact_url(self._base)} refers to another host, {redact_url(url)}", transient=False)
        return url


def _manifest(data: bytes, digest: str, media_type: str, where: str, titled: bool) -> ImageManifest:
    document = _parse(data, where)
    media_type = document.get("mediaType") or media_type
    if media_type in _INDEXES or "manifests" in document:
        raise SourceError(
            f"{where} is an index of several artifacts: push a release as one artifact, without a platform",
            transient=False,
        )
    if media_type not in (MANIFEST, _DOCKER_MANIFEST):
        raise SourceError(f"{where} is of type {media_type!r}, which is not an artifact", transient=False)
    layers = _layers(document, where)
    annotations, config = document.get("annotations"), document.get("config")
    return ImageManifest(
        digest,
        str(document.get("artifactType") or ""),
        annotations if isinstance(annotations, dict) else {},
        tuple(_descriptor(layer, f"layer {number} of {where}", titled) for number, layer in enumerate(layers)),
        str(config.get("mediaType") or "") if isinstance(config, dict) else "",
    )


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        return _mapping(json.loads(data), where)
    except (ValueError, RecursionError):
        raise SourceError(f"{where} is not a manifest", transient=False) from None


def _layers(document: Mapping[str, Any], where: str) -> list[Any]:
    layers = document.get("layers")
    if not isinstance(layers, list):
        raise SourceError(f"{where} has no layers", transient=False)
    return layers


def _descriptor(layer: Any, where: str, titled: bool = True) -> Descriptor:
    layer = _mapping(layer, where)
    annotations = layer.get("annotations")
    name = annotations.get(TITLE) if isinstance(annotations, dict) else None
    digest, size = layer.get("digest"), layer.get("size")
    if titled and not isinstance(name, str):
        raise SourceError(f"{where} has no annotation {TITLE}, so its file has no name", transient=False)
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise SourceError(f"{where} has no sha256 digest", transient=False)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SourceError(f"{where} has no size", transient=False)
    return Descriptor(name if isinstance(name, str) else "", digest, size, str(layer.get("mediaType") or ""))


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{where} does not answer like an OCI registry", transient=True)
    return value
