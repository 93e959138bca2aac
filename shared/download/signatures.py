"""Verifies signatures of releases and components with public keys of the settings, offline, in the format of cosign.

- `cosign sign --key` stores the signature of an OCI artifact in the same repository, under the tag
  `sha256-<digest>.sig`. The content of its layer names the digest of the artifact's manifest; the layer's annotations
  have the signature of this content.
- `cosign sign-blob --key` writes the signature of a file as base64 of an ECDSA signature of the file's SHA-256:
  `<file>.sig` beside the file.

A signature proves who made a file, but neither its name nor its version.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.settings import SETTINGS

from . import checksums
from .errors import SourceError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

RELEASE_KEY = "RELEASE_PUBLIC_KEY"
PROVIDER_KEY = "PROVIDER_PUBLIC_KEY"
"""The settings with the public keys (PEM) of releases and of providers."""

SUFFIX = ".sig"
MAX_SIGNATURE = 4096
"""The largest signature file, in bytes; cosign's have about 96."""
MAX_PAYLOAD = 64 * 1024

_TYPE = "cosign container image signature"
_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----[A-Za-z0-9+/=\s]*-----END PUBLIC KEY-----")


@dataclass(frozen=True)
class Verifier:
    """The public keys in `setting`; a signature by any of them is valid."""

    setting: str
    keys: tuple[EllipticCurvePublicKey, ...]

    def signed(self, digest: bytes, signature: bytes) -> bool:
        """Returns whether `signature`, in base64, signs the file whose SHA-256 is `digest`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, utils
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            decoded = base64.b64decode(signature.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        for key in self.keys:
            try:
                key.verify(decoded, digest, ec.ECDSA(utils.Prehashed(SHA256())))
            except InvalidSignature:
                continue
            return True
        return False

    def require(self, file: str, data: bytes, signature: bytes) -> None:
        """Raises `SourceError` unless `signature` signs the content of the file."""
        if not self.signed(_sha256(data), signature):
            raise self.refusal([file], f"{file}{SUFFIX}")

    def signs_artifact(self, digest: str, signatures: Iterable[tuple[bytes, str]]) -> bool:
        """Returns whether an artifact is signed.

        Args:
            digest: The digest of its manifest, as "sha256:<hexadecimal>".
            signatures: Content and signature, in base64, of each signature in the registry.
        """
        return any(
            names_artifact(payload, digest) and self.signed(_sha256(payload), signature.encode())
            for payload, signature in signatures
        )

    def unsigned(self, digests: Mapping[str, str], contents: Mapping[str, bytes]) -> list[str]:
        """Returns the files that neither have a signature nor are in a signed SHA256SUMS.

        Args:
            digests: The sha256 of each file, in hexadecimal. Signatures need no signature.
            contents: The content of SHA256SUMS and of the signatures, by name.
        """
        signed = {
            name
            for name, digest in digests.items()
            if self.signed(bytes.fromhex(digest), contents.get(f"{name}{SUFFIX}", b""))
        }
        if checksums.SUMS in signed:
            try:
                listed = checksums.parse(contents.get(checksums.SUMS, b""))
            except ValueError:
                listed = {}
            signed |= {name for name, digest in digests.items() if listed.get(name) == digest}
        return sorted(name for name in digests if name not in signed and not name.endswith(SUFFIX))

    def refusal(self, files: Iterable[str], way_out: str) -> SourceError:
        """Returns the error for files without a valid signature."""
        named = ", ".join(files)[:300]
        return SourceError(
            f"{named}: no valid signature by the key in {self.setting}: sign with cosign ({way_out})", transient=False
        )


def verifier_in(setting: str, settings: Mapping[str, str] = SETTINGS) -> Verifier | None:
    """Returns a verifier for the public keys in a setting, None if the setting is empty.

    Raises:
        SourceError: The setting has no key, or a key that is not ECDSA P-256.
    """
    text = settings.get(setting, "").strip()
    if not text:
        return None
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    keys = []
    try:
        for pem in _PEM.findall(text):
            key = load_pem_public_key(pem.encode())
            if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
                raise ValueError("another type of key")
            keys.append(key)
        if not keys or _PEM.sub("", text).strip():
            raise ValueError("data other than keys")
    except (ValueError, UnsupportedAlgorithm):
        problem = f"{setting} must be public keys in PEM, each ECDSA P-256, as in cosign.pub"
        raise SourceError(problem, transient=False) from None
    return Verifier(setting, tuple(keys))


def names_artifact(payload: bytes, digest: str) -> bool:
    """Returns whether the content of a signature names the artifact whose manifest has this digest."""
    if len(payload) > MAX_PAYLOAD:
        return False
    try:
        critical = json.loads(payload)["critical"]
        return bool(critical["type"] == _TYPE and critical["image"]["docker-manifest-digest"] == digest)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
