"""Releases as OCI artifacts, `oci://<registry>/<repository>`: a tag for each release, a layer for each file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.download import File, Listing, ReleaseNotFound
from shared.download.access import Access
from shared.download.signatures import RELEASE_KEY, verifier_in

from .port import SourceType, SourceUrl, UnusableUrl

_PREFIX = "application/vnd.scs."
ARTIFACT_TYPE = _PREFIX + "cluster-stacks.v1"


@dataclass(frozen=True, slots=True)
class OciSource:
    """The releases in one repository. `host` may have a port; `plain` is HTTP without TLS."""

    host: str
    repository: str
    access: Access = field(default_factory=Access)
    plain: bool = False

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`. Files have the names of the layers' titles; media types are ignored."""
        from shared.download.registry import NotInRegistry, Registry

        with Registry(self.host, self.repository, self.access, self.plain) as registry:
            try:
                manifest = registry.manifest(tag)
            except NotInRegistry:
                raise ReleaseNotFound(tag, f"{self.host}/{self.repository}") from None
            verifier = verifier_in(RELEASE_KEY)
            signed = bool(verifier and verifier.signs_artifact(manifest.digest, registry.signatures(manifest.digest)))
            for layer in manifest.layers:
                yield File(layer.name, registry.blob(layer), layer.size, layer.digest.removeprefix("sha256:"), signed)

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        from shared.download.registry import Registry

        with Registry(self.host, self.repository, self.access, self.plain) as registry:
            tags = registry.tags()
        return Listing(sorted(tags), tags.problem) if isinstance(tags, Listing) else sorted(tags)


def media_type(file: str) -> str:
    """Returns the media type of a release's file, as csctl pushes it."""
    if file == "metadata.yaml":
        kind = "metadata.layer.v1+yaml"
    elif file == "clusteraddon.yaml":
        kind = "cluster-addon.config.layer.v1+yaml"
    elif file == "node-images.yaml":
        kind = "node-image.config.layer.v1+yaml"
    elif file == "hashes.json":
        kind = "hashes.layer.v1+yaml"
    elif file.endswith(".tgz") and "-cluster-class-" in file:
        kind = "cluster-class.v1.tar+gzip"
    elif file.endswith(".tgz") and "-cluster-addon-" in file:
        kind = "cluster-addon.layer.v1.tar+gzip"
    elif file.endswith(".tgz") and "-node-image-" in file:
        kind = "node-image.layer.v1.tar+gzip"
    else:
        return "application/octet-stream"
    return _PREFIX + kind


def _open(url: SourceUrl, access: Access) -> OciSource:
    parts = url.split_server()
    repository = parts.path.strip("/")
    if not repository:
        raise UnusableUrl("is not of the form oci://<registry>/<repository>")
    return OciSource(parts.netloc, repository, access, url.plain)


def _access(env: Mapping[str, str]) -> Access:
    token = env.get("OCI_ACCESS_TOKEN", "")
    return Access(
        token=base64.b64encode(token.encode()).decode(),  # as cluster-stack-operator sends it to registries
        username=env.get("OCI_USERNAME", ""),
        password=env.get("OCI_PASSWORD", ""),
    )


SOURCE_TYPE = SourceType(("oci", "oci+http"), _open, _access)
