"""Keys and signatures as `cosign generate-key-pair`, `cosign sign-blob` and `cosign sign` (version 2) make them."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared.download.registry import MANIFEST, Registry

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"


@dataclass(frozen=True)
class Signer:
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def public_key(self) -> str:
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def sign(self, data: bytes) -> bytes:
        """Returns the content of `<file>.sig`."""
        return base64.b64encode(self.key.sign(data, ec.ECDSA(SHA256())))

    def sign_artifact(self, registry: Registry, digest: str, *, about: str = "") -> None:
        """Publishes the signature of the artifact with a digest; `about` is another digest to name in it."""
        data = payload(about or digest)
        put = registry._put_blob
        layer = put(data, SIMPLE_SIGNING)
        layer["annotations"] = {"dev.cosignproject.cosign/signature": self.sign(data).decode()}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": put(b"{}", "application/vnd.oci.image.config.v1+json"),
            "layers": [layer],
        }
        url = f"{registry._base}manifests/{digest.replace(':', '-')}.sig"
        registry._send("PUT", url, {"Content-Type": MANIFEST}, json.dumps(manifest).encode()).close()


def payload(digest: str, type_: str = "cosign container image signature") -> bytes:
    critical = {
        "identity": {"docker-reference": "registry.example.com/team/stacks"},
        "image": {"docker-manifest-digest": digest},
        "type": type_,
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def sums(files: dict[str, bytes]) -> bytes:
    """Returns the content of SHA256SUMS."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()
