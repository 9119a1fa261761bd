"""The Secret of webhooks' certificates as Kueue's certificate controller leaves it, for a server named `HOST`."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

START = datetime(2026, 1, 1, tzinfo=UTC)
HOST = "webhook.ns.svc"


def rsa_pair(key: rsa.RSAPrivateKey, issuer: rsa.RSAPrivateKey, *names: str) -> x509.Certificate:
    """As Kueue makes its own, but for its authority's serial number."""
    who = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("kueue", "kueue-ca")]
    builder = x509.CertificateBuilder().subject_name(who[0] if names else who[1]).issuer_name(who[1])
    builder = builder.public_key(key.public_key()).serial_number(1).not_valid_before(START - timedelta(hours=1))
    builder = builder.not_valid_after(START + timedelta(days=3650))
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    return (builder.add_extension(alternative, critical=False) if names else builder).sign(issuer, hashes.SHA256())


def pkcs1(key: rsa.RSAPrivateKey) -> bytes:
    """As Go's x509.MarshalPKCS1PrivateKey and pem.Encode write it."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def pkcs8(key: rsa.RSAPrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


AUTHORITY_KEY, SERVER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(2))
AUTHORITY = rsa_pair(AUTHORITY_KEY, AUTHORITY_KEY)


def numbered_0(authority: x509.Certificate) -> bytes:
    """As cert-controller makes it, in PEM: with the serial number 0, and signed."""
    body, der = authority.tbs_certificate_bytes, authority.public_bytes(serialization.Encoding.DER)
    one, zero = bytes.fromhex("a003020102020101"), bytes.fromhex("a003020102020100")
    assert body.count(one) == 1
    changed = body.replace(one, zero)
    signed = AUTHORITY_KEY.sign(changed, padding.PKCS1v15(), hashes.SHA256())
    text = b64encode(der.replace(body, changed)[: -len(signed)] + signed).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode()


def left_by_kueue(authority: bytes = AUTHORITY.public_bytes(serialization.Encoding.PEM)) -> dict[str, bytes]:
    server = rsa_pair(SERVER_KEY, AUTHORITY_KEY, HOST).public_bytes(serialization.Encoding.PEM)
    return {"ca.crt": authority, "ca.key": pkcs1(AUTHORITY_KEY), "tls.crt": server, "tls.key": pkcs1(SERVER_KEY)}
