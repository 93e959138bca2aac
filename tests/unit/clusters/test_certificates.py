"""Certificates: their content, their validity, and the CAs that can be loaded."""

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.certificates import YEAR, CertificateAuthority, KeyPair, service_account_keys

CA = CertificateAuthority.generate("test-ca")


def parsed(pair: KeyPair | CertificateAuthority) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.cert_pem)


def rsa_ca(encoding: serialization.PrivateFormat) -> CertificateAuthority:
    """A CA like those of other tools, with an RSA key and without a subject key identifier."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - YEAR, now + YEAR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(serialization.Encoding.PEM, encoding, serialization.NoEncryption())
    return CertificateAuthority.load(certificate.public_bytes(serialization.Encoding.PEM), key_pem)


def test_generated_authority_is_a_ca_for_ten_years() -> None:
    certificate = parsed(CA)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    now = datetime.datetime.now(datetime.UTC)

    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert usage.key_cert_sign
    assert certificate.not_valid_before_utc < now - datetime.timedelta(minutes=4)
    assert certificate.not_valid_after_utc > now + 9.9 * YEAR
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert CertificateAuthority.load(CA.cert_pem, CA.key_pem) == CA


@pytest.mark.parametrize(
    ("server", "purpose"), [(True, ExtendedKeyUsageOID.SERVER_AUTH), (False, ExtendedKeyUsageOID.CLIENT_AUTH)]
)
def test_issued_certificate_has_requested_subject_names_and_purpose(
    server: bool, purpose: x509.ObjectIdentifier
) -> None:
    pair = CA.issue("me", ["a", "b"], ["localhost"], ["127.0.0.1", "::1"], server=server)
    certificate = parsed(pair)
    extensions = certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    certificate.verify_directly_issued_by(parsed(CA))
    assert certificate.subject.rfc4514_string() == "CN=me,O=b,O=a"
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
    assert extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert pair.key_pem.startswith(b"-----BEGIN PRIVATE KEY-----")


def test_serial_numbers_differ() -> None:
    assert len({parsed(CA.issue("me")).serial_number for _ in range(20)}) == 20


def test_certificate_expires_with_its_authority() -> None:
    short = CertificateAuthority.generate("short", datetime.timedelta(days=1))
    assert parsed(short.issue("me")).not_valid_after_utc == parsed(short).not_valid_after_utc


@pytest.mark.parametrize(
    "encoding", [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL]
)
def test_rsa_authority_can_issue(encoding: serialization.PrivateFormat, tmp_path: Path) -> None:
    ca = rsa_ca(encoding)
    pair = ca.issue("localhost", dns=["localhost"], server=True)
    parsed(pair).verify_directly_issued_by(parsed(ca))
    (tmp_path / "crt").write_bytes(pair.cert_pem)
    (tmp_path / "key").write_bytes(pair.key_pem)
    ssl.create_default_context(cadata=ca.cert_pem.decode()).load_cert_chain(tmp_path / "crt", tmp_path / "key")


def test_issued_certificates_pass_strict_tls_verification(tmp_path: Path) -> None:
    """Both sides accept each other with the strict checks that newer Pythons enable by default."""
    contexts = []
    for purpose, server in ((ssl.Purpose.CLIENT_AUTH, True), (ssl.Purpose.SERVER_AUTH, False)):
        pair = CA.issue("localhost", dns=["localhost"], server=server)
        (tmp_path / "crt").write_bytes(pair.cert_pem)
        (tmp_path / "key").write_bytes(pair.key_pem)
        context = ssl.create_default_context(purpose, cadata=CA.cert_pem.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
        contexts.append(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        contexts[0].wrap_bio(to_server, to_client, server_side=True),
        contexts[1].wrap_bio(to_client, to_server, server_hostname="localhost"),
    ]
    done: set[ssl.SSLObject] = set()
    for _ in range(5):
        for side in sides:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2


def pem(key: ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


LEAF = CA.issue("leaf")


@pytest.mark.parametrize(
    ("cert_pem", "key_pem", "message"),
    [
        (CA.cert_pem, LEAF.key_pem, "belongs to another key"),
        (LEAF.cert_pem, LEAF.key_pem, "not a CA certificate"),
        (b"nonsense", CA.key_pem, "PEM"),
        (CA.cert_pem, b"nonsense", "(?i)pem"),
        (CA.cert_pem, pem(ed25519.Ed25519PrivateKey.generate()), "EC or RSA"),
    ],
)
def test_unusable_authority_is_rejected(cert_pem: bytes, key_pem: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CertificateAuthority.load(cert_pem, key_pem)


@pytest.mark.parametrize("arguments", [{"ips": ["localhost"]}, {"dns": ["ü"]}, {"dns": ["a", "ü.example"]}])
def test_invalid_names_and_addresses_are_rejected(arguments: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        CA.issue("me", **arguments)


def test_service_account_keys_belong_together() -> None:
    pair = service_account_keys()
    private = serialization.load_pem_private_key(pair.key_pem, None)
    assert private.public_key() == serialization.load_pem_public_key(pair.cert_pem)
