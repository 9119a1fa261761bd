"""Years of certificates in a moment: what is served with is always valid, and of an authority that clients know."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from muster.runtime.certificates import Credential, is_signed_by
from muster.webhooks import certificates
from muster.webhooks.certificates import (
    AUTHORITY_LIFE,
    LIFE,
    SETTLING,
    Due,
    Held,
    due,
    next_due,
    read,
    renewed,
    written,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("webhook.ns.svc", "localhost", "127.0.0.1")
FIRST = renewed(Held(), NAMES, START)


def test_the_first_ones_are_made_together() -> None:
    assert due(Held(), NAMES, START) == Due(authority=True, server=True)
    assert due(FIRST, NAMES, START) == Due()
    assert renewed(FIRST, NAMES, START) is FIRST


def test_what_is_written_is_read_again() -> None:
    again = read(written(FIRST))
    assert written(again) == written(FIRST)
    assert due(again, NAMES, START) == Due()


def test_a_client_always_knows_the_authority() -> None:
    """Clients hear of a new one late: nearly a month after it was published."""
    held, now, known = FIRST, START, set(FIRST.authorities)
    signers = set()
    while now < START + 3 * AUTHORITY_LIFE:
        server = held.server
        assert server is not None
        assert server.certificate.not_valid_before_utc <= now < server.certificate.not_valid_after_utc - LIFE / 4, now
        assert any(is_signed_by(server.certificate, one) for one in known if now < one.not_valid_after_utc)
        signers |= {one for one in known if is_signed_by(server.certificate, one)}
        at = next_due(held)
        assert at is not None
        assert at > now
        known = set(held.authorities)  # they have heard by then
        held, now = renewed(held, NAMES, at), at
        assert due(held, NAMES, now) == Due(), "once is enough"
        assert len(held.authorities) <= 3
    assert len(signers) >= 4


def test_a_new_authority_signs_only_when_it_has_settled() -> None:
    at = START + AUTHORITY_LIFE * 2 / 3 + timedelta(days=1)
    served = renewed(Held(FIRST.authorities, FIRST.signer), NAMES, at - LIFE * 0.6)
    assert due(served, NAMES, at) == Due(authority=True)
    both = renewed(served, NAMES, at)
    assert len(both.authorities) == 2
    assert both.server is not None
    assert is_signed_by(both.server.certificate, FIRST.authorities[0]), "the old one signs once more"
    assert due(both, NAMES, at + SETTLING - timedelta(minutes=6)) == Due()
    settled = at + SETTLING
    assert due(both, NAMES, settled) == Due(server=True)
    server = renewed(both, NAMES, settled).server
    assert server is not None
    assert is_signed_by(server.certificate, both.authorities[0])


def test_an_old_authority_that_ends_before_the_new_one_has_settled_is_served_with_to_its_end() -> None:
    end = FIRST.authorities[0].not_valid_after_utc
    both = renewed(FIRST, NAMES, end - timedelta(days=3))
    assert next_due(both) == end
    assert due(both, NAMES, end) == Due(server=True)


def rsa_pair(key: rsa.RSAPrivateKey, issuer: rsa.RSAPrivateKey, *names: str) -> x509.Certificate:
    """As Kueue makes its own."""
    who = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("kueue", "kueue-ca")]
    builder = x509.CertificateBuilder().subject_name(who[0] if names else who[1]).issuer_name(who[1])
    builder = builder.public_key(key.public_key()).serial_number(1).not_valid_before(START - timedelta(hours=1))
    builder = builder.not_valid_after(START + timedelta(days=3650))
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    return (builder.add_extension(alternative, critical=False) if names else builder).sign(issuer, hashes.SHA256())


def test_what_kueue_has_made_is_held_and_its_authority_signs_what_is_missing() -> None:
    """Its keys are RSA. The server knows its authority already."""
    authority_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    authority = Credential(rsa_pair(authority_key, authority_key), authority_key)
    server = Credential(rsa_pair(key, authority_key, NAMES[0]), key)
    theirs = read(written(Held((authority.certificate,), authority, server)))
    assert due(theirs, NAMES[:1], START) == Due()
    assert due(theirs, NAMES, START) == Due(server=True)
    ours = renewed(theirs, NAMES, START)
    assert ours.authorities == (authority.certificate,)
    assert ours.server is not None
    assert is_signed_by(ours.server.certificate, authority.certificate)


def test_hosts_may_have_long_names() -> None:
    host = f"{'s' * 63}.{'n' * 63}.svc"
    assert due(renewed(Held(), [host], START), [host], START) == Due()


def encrypted(held: Held) -> bytes:
    assert held.server is not None
    how = serialization.BestAvailableEncryption(b"secret")
    return held.server.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


def unsupported() -> bytes:
    """A key on a curve that nobody supports."""
    text = b64encode(
        bytes.fromhex(f"303e020100301006072a8648ce3d020106052b81040063042730250201010420{'01' * 32}")
    ).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n".encode()


OTHER = renewed(Held(), NAMES, START)


@pytest.mark.parametrize(
    ("held", "names", "now", "expected"),
    [
        pytest.param(FIRST, NAMES, START + LIFE * 0.5, Due(), id="young"),
        pytest.param(FIRST, NAMES, START + LIFE * 0.7, Due(server=True), id="past two thirds of its life"),
        pytest.param(FIRST, NAMES, START + LIFE * 1.1, Due(server=True), id="expired while nobody ran"),
        pytest.param(FIRST, NAMES, START + AUTHORITY_LIFE * 1.1, Due(True, True), id="so has the authority"),
        pytest.param(FIRST, NAMES, START - timedelta(hours=1), Due(True, True), id="a clock was wrong"),
        pytest.param(FIRST, ("other.ns.svc",), START, Due(server=True), id="for other names"),
        pytest.param(Held(FIRST.authorities, None, FIRST.server), NAMES, START, Due(authority=True), id="key lost"),
        pytest.param(Held(FIRST.authorities, FIRST.signer), NAMES, START, Due(server=True), id="certificate lost"),
        pytest.param(
            Held(OTHER.authorities, OTHER.signer, FIRST.server), NAMES, START, Due(server=True), id="of a stranger"
        ),
        pytest.param(read({}), NAMES, START, Due(True, True), id="an empty Secret"),
        pytest.param(
            read(dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), b"-----BEGIN CERTIFICATE-----\nx")),
            NAMES, START, Due(True, True), id="rubbish",
        ),
        pytest.param(
            read(written(FIRST) | {certificates.KEY: written(OTHER)[certificates.KEY]}), NAMES, START,
            Due(server=True), id="another's key",
        ),
        pytest.param(
            read(written(FIRST) | {certificates.KEY: encrypted(FIRST)}), NAMES, START,
            Due(server=True), id="a key with a password",
        ),
        pytest.param(
            read(written(FIRST) | {certificates.AUTHORITY_KEY: unsupported()}), NAMES, START,
            Due(authority=True), id="a key of an unknown kind",
        ),
    ],
)  # fmt: skip
def test_what_is_due(held: Held, names: tuple[str, ...], now: datetime, expected: Due) -> None:
    assert due(held, names, now) == expected
    assert due(renewed(held, names, now), names, now) == Due()
