"""Certificate authorities, and the serving and client certificates that they issue."""

from __future__ import annotations

import datetime
import ipaddress
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
YEAR = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(minutes=5)
"""The time by which a CA is valid before its creation, so that machines whose clock is behind accept it."""
_MAX_KEY = 4 << 10
"""The maximum number of bytes of a key in PEM, enough for RSA with 4096 bits; checking longer keys takes seconds."""
_WRONG_CLOCK = datetime.timedelta(days=1)
"""The largest expected difference of clocks that are not synchronized, such as clocks that are set to local time."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate (or a bare public key) and its private key (PKCS#8), both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True)
class CertificateAuthority:
    """A CA certificate and its private key, both PEM. EC and RSA keys are accepted, EC P-256 is generated.

    `cert_pem` may be a bundle, as during a rotation of the CA. The key's certificate signs; all are trusted.
    """

    cert_pem: bytes
    key_pem: bytes = field(repr=False)

    @classmethod
    def generate(cls, common_name: str, valid_for: datetime.timedelta = 10 * YEAR) -> CertificateAuthority:
        """Creates a self-signed CA. Raises `ValueError` for a name that X.509 does not allow."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        public = key.public_key()
        now = _now()
        certificate = (
            _builder(name, name, public, now - CLOCK_SKEW, now + valid_for)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage("digital_signature", "key_cert_sign", "crl_sign"), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(_pem(certificate), _key_pem(key))

    @classmethod
    def load(cls, cert_pem: bytes, key_pem: bytes) -> CertificateAuthority:
        """Loads a CA from PEM.

        The key may be PKCS#1, PKCS#8 or SEC1. Raises `ValueError` if either part does not parse, the two do not belong
        together, the certificate does not belong to a CA, or the key is neither EC nor RSA. No text quotes the content.
        """
        ca = cls(cert_pem, key_pem)
        try:
            constraints = ca._certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        except (x509.ExtensionNotFound, x509.DuplicateExtension):
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
        until: datetime.datetime | None = None,
        key: PrivateKey | None = None,
    ) -> KeyPair:
        """Issues a certificate for a server or a client; by default for a new EC P-256 key.

        Kubernetes takes `common_name` for the user of a client and `organizations` for its groups. The certificate
        becomes valid with its CA, because clocks differ, and expires with it at the latest, else at `until` or after
        `valid_for`. Raises `ValueError` for invalid names or addresses, and for a CA that has expired.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        self.check_validity(_now())
        since, expires = self._certificate.not_valid_before_utc, min(until or _now() + valid_for, self.expires)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), since, expires)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature", "key_encipherment"), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(self._identifier, critical=False)
        )
        names = [x509.DNSName(name) for name in dns]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ips]
        if names or addresses:
            builder = builder.add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))

    @property
    def expires(self) -> datetime.datetime:
        """The expiry of the signing certificate."""
        return self._certificate.not_valid_after_utc

    def check_validity(self, now: datetime.datetime) -> None:
        """Raises `ValueError` if the CA has expired, or begins later than wrong clocks explain."""
        if self.expires <= now:
            raise ValueError(f"the CA certificate expired at {self.expires:%Y-%m-%dT%H:%M:%SZ}")
        start = self._certificate.not_valid_before_utc
        if start > now + _WRONG_CLOCK:
            raise ValueError(f"the CA certificate is not valid before {start:%Y-%m-%dT%H:%M:%SZ}")

    @property
    def fingerprints(self) -> frozenset[bytes]:
        """The SHA-256 fingerprints of all certificates of the bundle."""
        return fingerprints(self.cert_pem)

    def has_issued(self, cert_pem: bytes) -> bool:
        """Returns whether the key of this CA signed the certificate."""
        try:
            load_certificates(cert_pem)[0].verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def new_key(self) -> PrivateKey:
        """Returns a new key of the CA's own type, because verifiers of the CA can use it. RSA keys have 2048 bits."""
        if isinstance(self._key, rsa.RSAPrivateKey):
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return ec.generate_private_key(self._key.curve)

    @cached_property
    def _certificate(self) -> x509.Certificate:
        public = self._key.public_key()
        for certificate in load_certificates(self.cert_pem):
            if _public_key(certificate) == public:
                return certificate
        raise ValueError("the CA certificate belongs to another key")

    @cached_property
    def _key(self) -> PrivateKey:
        key = load_key(self.key_pem)
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


def load_certificates(pem: bytes) -> Sequence[x509.Certificate]:
    """Returns the certificates of a PEM bundle, at least one. Raises `ValueError`, which does not quote it."""
    try:
        with warnings.catch_warnings():
            # Cluster API's own CAs have serial number 0, which the library warns about.
            warnings.simplefilter("ignore")
            return x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion):
        raise ValueError("the certificate is not PEM") from None


def load_key(pem: bytes) -> PrivateKeyTypes:
    """Returns the private key in PEM: PKCS#1, PKCS#8 or SEC1. Raises `ValueError`, which does not quote it."""
    if len(pem) > _MAX_KEY:
        raise ValueError(f"the key has more than {_MAX_KEY >> 10} KiB")
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("the key is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("the key is not PEM (PKCS#1, PKCS#8 or SEC1)") from None


def fingerprints(pem: bytes) -> frozenset[bytes]:
    """Returns the SHA-256 fingerprints of the certificates in a PEM bundle. Raises `ValueError`."""
    return frozenset(certificate.fingerprint(hashes.SHA256()) for certificate in load_certificates(pem))


def service_account_keys() -> KeyPair:
    """Creates a key pair that signs service account tokens; `cert_pem` is the bare public key, not a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, _key_pem(key))


def _public_key(certificate: x509.Certificate) -> object:
    """Returns the public key, None if its algorithm is not supported. A bundle may have such a certificate, too."""
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    since: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
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
