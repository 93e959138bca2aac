"""What counts as signed: a file, a file in a signed list, an artifact; and which keys a setting may have."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared.download import SourceError
from shared.download.signatures import MAX_PAYLOAD, Verifier, names_artifact, verifier_in
from tests.support.cosign import Signer, payload, sums

OURS, NEXT, THEIRS = Signer(), Signer(), Signer()
A, B = b"content of a", b"content of b"
FILES = {"a": A, "b": B}
DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    found = verifier_in("KEYS", {"KEYS": f"{OURS.public_key}\n{NEXT.public_key}"})
    assert found is not None
    return found


LISTED = sums(FILES)


@pytest.mark.parametrize(
    ("proofs", "unsigned"),
    [
        ({}, ["a", "b"]),
        ({"a.sig": OURS.sign(A), "b.sig": NEXT.sign(B)}, []),
        ({"a.sig": OURS.sign(A) + b"\n", "b.sig": OURS.sign(B)}, []),
        ({"a.sig": OURS.sign(A)}, ["b"]),
        ({"a.sig": OURS.sign(A), "b.sig": OURS.sign(A)}, ["b"]),
        ({"a.sig": THEIRS.sign(A), "b.sig": OURS.sign(B)}, ["a"]),
        ({"a.sig": b"", "b.sig": b"%%%"}, ["a", "b"]),
        ({"a.sig": b"\xff\xfe", "b.sig": base64.b64encode(b"x" * 70)}, ["a", "b"]),
        ({"SHA256SUMS": LISTED, "SHA256SUMS.sig": OURS.sign(LISTED)}, []),
        ({"SHA256SUMS": LISTED}, ["SHA256SUMS", "a", "b"]),
        ({"SHA256SUMS": LISTED, "SHA256SUMS.sig": THEIRS.sign(LISTED)}, ["SHA256SUMS", "a", "b"]),
        ({"SHA256SUMS": sums({"a": A}), "SHA256SUMS.sig": OURS.sign(sums({"a": A}))}, ["b"]),
        ({"SHA256SUMS": sums({"a": A, "b": A}), "SHA256SUMS.sig": OURS.sign(sums({"a": A, "b": A}))}, ["b"]),
        ({"SHA256SUMS": b"junk", "SHA256SUMS.sig": OURS.sign(b"junk")}, ["a", "b"]),
    ],
)
def test_each_file_is_signed_or_in_a_signed_list(
    verifier: Verifier, proofs: dict[str, bytes], unsigned: list[str]
) -> None:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in {**FILES, **proofs}.items()}
    assert verifier.unsigned(digests, proofs) == unsigned


@pytest.mark.parametrize(
    ("signatures", "signed"),
    [
        ([], False),
        ([(payload(DIGEST), OURS.sign(payload(DIGEST)))], True),
        ([(payload(OTHER), OURS.sign(payload(OTHER)))], False),
        ([(payload(DIGEST), OURS.sign(payload(OTHER)))], False),
        ([(payload(DIGEST), THEIRS.sign(payload(DIGEST)))], False),
        ([(payload(DIGEST), THEIRS.sign(payload(DIGEST))), (payload(DIGEST), NEXT.sign(payload(DIGEST)))], True),
        ([(payload(DIGEST, "else"), OURS.sign(payload(DIGEST, "else")))], False),
    ],
)
def test_artifact_is_signed_by_what_names_its_digest(
    verifier: Verifier, signatures: list[tuple[bytes, bytes]], signed: bool
) -> None:
    assert verifier.signs_artifact(DIGEST, [(data, text.decode()) for data, text in signatures]) is signed


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"null", b"{}", b'{"critical": 5}', b'{"critical": {"type": "x"}}', b"[" * 60_000, b"\xff"),
        payload(DIGEST) + b" " * MAX_PAYLOAD,
        b'{"critical": {"type": "cosign container image signature", "image": ["docker-manifest-digest"]}}',
    ],
)
def test_content_of_a_signature_may_be_anything(content: bytes) -> None:
    assert not names_artifact(content, DIGEST)


P384 = ec.generate_private_key(ec.SECP384R1()).public_key()
EDWARDS = ed25519.Ed25519PrivateKey.generate().public_key()


@pytest.mark.parametrize(
    "keys",
    [
        *("junk", OURS.public_key[:60], f"{OURS.public_key}junk", OURS.public_key.replace("PUBLIC", "PRIVATE")),
        *(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode() for key in (P384, EDWARDS)),
        "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----",
    ],
    ids=["junk", "cut", "more", "private", "P-384", "Ed25519", "empty"],
)
def test_setting_with_something_else_than_keys_refuses_all(keys: str) -> None:
    with pytest.raises(SourceError, match=r"KEYS must be public keys in PEM, each ECDSA P-256"):
        verifier_in("KEYS", {"KEYS": keys})


@pytest.mark.parametrize("settings", [{}, {"KEYS": " \n"}])
def test_nothing_is_verified_without_the_setting(settings: dict[str, str]) -> None:
    assert verifier_in("KEYS", settings) is None
