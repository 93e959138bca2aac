"""Certificate authorities, and the serving and client certificates that they issue."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
YEAR = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """A certificate (or a bare public key) and its private key (PKCS#8), both PEM."""

    cert_pem: bytes
    key_pem: bytes


@dataclass(frozen=True)
class CertificateAuthority:
    """A CA certificate and its private key, both PEM. EC and RSA keys are accepted, EC P-256 is generated."""

    cert_pem: bytes
    key_pem: bytes

    @classmethod
    def generate(cls, common_name: str, valid_for: datetime.timedelta = 10 * YEAR) -> CertificateAuthority:
        """Creates a self-signed CA. Raises `ValueError` for a name that X.509 does not allow."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        public = key.public_key()
        now = _now()
        certificate = (
            _builder(name, name, public, now, now + valid_for)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage("digital_signature", "key_cert_sign", "crl_sign"), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(_pem(certificate), _key_pem(key))

    @classmethod
    def load(cls, cert_pem: bytes, key_pem: bytes) -> CertificateAuthority:
        """Loads a CA from PEM.

        Raises `ValueError` if either part does not parse, the two do not belong together, the certificate is not that
        of a CA, or the key is neither EC nor RSA.
        """
        ca = cls(cert_pem, key_pem)
        if ca._key.public_key() != ca._certificate.public_key():
            raise ValueError("the CA certificate belongs to another key")
        try:
            constraints = ca._certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        except x509.ExtensionNotFound:
            raise ValueError("the certificate is not a CA certificate") from None
        if not constraints.value.ca:
            raise ValueError("the certificate is not a CA certificate")
        return ca

    def issue(
        self,
        common_name: str,
        organizations: Iterable[str] = (),
        dns: Iterable[str] = (),
        ips: Iterable[str] = (),
        *,
        server: bool = False,
        valid_for: datetime.timedelta = YEAR,
    ) -> KeyPair:
        """Issues an EC P-256 key and certificate for a server or a client.

        Kubernetes takes `common_name` for the user of a client and `organizations` for its groups. The certificate
        expires with the CA at the latest. Raises `ValueError` for invalid names or addresses.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        now = _now()
        until = min(now + valid_for, self._certificate.not_valid_after_utc)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature"), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(self._identifier, critical=False)
        )
        names = [x509.DNSName(name) for name in dns]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ips]
        if names or addresses:
            builder = builder.add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))

    @cached_property
    def _certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.cert_pem)

    @cached_property
    def _key(self) -> PrivateKey:
        key = serialization.load_pem_private_key(self.key_pem, password=None)
        if not isinstance(key, PrivateKey):
            raise ValueError(f"CA keys are EC or RSA, not {type(key).__name__}")
        return key

    @property
    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        try:
            own = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own.value)


def service_account_keys() -> KeyPair:
    """Creates a key pair that signs service account tokens; `cert_pem` is the bare public key, not a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, _key_pem(key))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*allowed: str) -> x509.KeyUsage:
    every = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
        "key_cert_sign crl_sign encipher_only decipher_only"
    )
    return x509.KeyUsage(**{name: name in allowed for name in every.split()})


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
