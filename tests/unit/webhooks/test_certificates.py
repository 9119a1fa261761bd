"""Years of certificates in a moment: what is served with is always valid, and of an authority that clients know."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from tests.kueue_certificates import AUTHORITY, AUTHORITY_KEY, HOST, left_by_kueue, numbered_0, pkcs8

from muster.runtime.certificates import is_signed_by
from muster.webhooks import certificates
from muster.webhooks.certificates import (
    AUTHORITY_LIFE,
    LIFE,
    SETTLING,
    DueParts,
    Held,
    find_due,
    is_readable_by_kueue,
    list_changes,
    make_secret_data,
    next_due,
    read,
    renew_what_is_due,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = (HOST, "localhost", "127.0.0.1")
FIRST = renew_what_is_due(Held(), NAMES, START)


def test_the_first_ones_are_made_together() -> None:
    assert find_due(Held(), NAMES, START) == DueParts(authority=True, server=True)
    assert find_due(FIRST, NAMES, START) == DueParts()
    assert renew_what_is_due(FIRST, NAMES, START) is FIRST


def test_what_is_written_is_read_again() -> None:
    again = read(make_secret_data(FIRST))
    assert make_secret_data(again) == make_secret_data(FIRST)
    assert find_due(again, NAMES, START) == DueParts()


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
        held, now = renew_what_is_due(held, NAMES, at), at
        assert find_due(held, NAMES, now) == DueParts(), "once is enough"
        assert len(held.authorities) <= 3
    assert len(signers) >= 4


def test_a_new_authority_signs_only_when_it_has_settled() -> None:
    at = START + AUTHORITY_LIFE * 2 / 3 + timedelta(days=1)
    served = renew_what_is_due(Held(FIRST.authorities, FIRST.signer), NAMES, at - LIFE * 0.6)
    assert find_due(served, NAMES, at) == DueParts(authority=True)
    both = renew_what_is_due(served, NAMES, at)
    assert len(both.authorities) == 2
    assert both.server is not None
    assert is_signed_by(both.server.certificate, FIRST.authorities[0]), "the old one signs once more"
    assert find_due(both, NAMES, at + SETTLING - timedelta(minutes=6)) == DueParts()
    settled = at + SETTLING
    assert find_due(both, NAMES, settled) == DueParts(server=True)
    server = renew_what_is_due(both, NAMES, settled).server
    assert server is not None
    assert is_signed_by(server.certificate, both.authorities[0])


def test_an_old_authority_that_ends_before_the_new_one_has_settled_is_served_with_to_its_end() -> None:
    end = FIRST.authorities[0].not_valid_after_utc
    both = renew_what_is_due(FIRST, NAMES, end - timedelta(days=3))
    assert next_due(both) == end
    assert find_due(both, NAMES, end) == DueParts(server=True)


def test_what_kueue_has_made_is_held_and_its_authority_signs_what_is_missing() -> None:
    """Its keys are RSA. The server knows its authority already."""
    theirs = read(left_by_kueue())
    assert find_due(theirs, NAMES[:1], START) == DueParts()
    assert find_due(theirs, NAMES, START) == DueParts(server=True)
    ours = renew_what_is_due(theirs, NAMES, START)
    assert ours.authorities == (AUTHORITY,)
    assert ours.server is not None
    assert is_signed_by(ours.server.certificate, AUTHORITY)


def test_keys_that_are_not_made_anew_keep_their_bytes() -> None:
    """Kueue's certificate controller reads PKCS#1 only, and hangs on any other form of its key."""
    held = read(left_by_kueue())
    later = list_changes(held, renew_what_is_due(held, NAMES, START))
    assert later.keys() == {"tls.crt", "tls.key"}
    assert is_readable_by_kueue(left_by_kueue() | later)
    assert list_changes(held, held) == {}
    assert list_changes(Held(), FIRST) == make_secret_data(FIRST)


def test_rsa_keys_are_written_as_kueue_reads_them() -> None:
    assert make_secret_data(read(left_by_kueue())) == left_by_kueue()


def test_a_new_authority_is_published_beside_the_old_one_with_its_key() -> None:
    at = START + AUTHORITY_LIFE * 2 / 3 + timedelta(days=1)
    assert list_changes(FIRST, renew_what_is_due(FIRST, NAMES, at)).keys() == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


def test_an_authority_with_the_serial_number_0_is_not_used() -> None:
    """The library only warns of it now, and says that it will refuse it."""
    held = read(left_by_kueue(numbered_0(AUTHORITY)))
    assert (held.authorities, held.signer) == ((), None)
    assert len(held.unusable) == 1
    assert "serial number which wasn't positive" in held.unusable[0]
    assert find_due(held, NAMES, START) == DueParts(True, True)
    now = left_by_kueue() | list_changes(held, renew_what_is_due(held, NAMES, START))
    assert find_due(read(now), NAMES, START) == DueParts()
    assert read(now).unusable == ()


def test_an_authority_that_cannot_be_used_takes_no_other_with_it() -> None:
    both = make_secret_data(FIRST) | {"ca.crt": make_secret_data(FIRST)["ca.crt"] + numbered_0(AUTHORITY)}
    assert (read(both).authorities, len(read(both).unusable)) == (FIRST.authorities, 1)
    assert find_due(read(both), NAMES, START) == DueParts()


@pytest.mark.parametrize(
    ("data", "readable"),
    [
        pytest.param({}, True, id="nothing: Kueue makes all of it"),
        pytest.param(left_by_kueue(), True, id="its own"),
        pytest.param(left_by_kueue() | {"ca.key": pkcs8(AUTHORITY_KEY)}, False, id="rewritten by an earlier engine"),
        pytest.param(make_secret_data(FIRST), False, id="of another kind"),
        pytest.param(left_by_kueue() | {"ca.crt": b""}, True, id="without an authority it reads no key"),
    ],
)
def test_what_kueues_manager_starts_on(data: dict[str, bytes], readable: bool) -> None:
    assert is_readable_by_kueue(data) == readable


def test_hosts_may_have_long_names() -> None:
    host = f"{'s' * 63}.{'n' * 63}.svc"
    assert find_due(renew_what_is_due(Held(), [host], START), [host], START) == DueParts()


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


OTHER = renew_what_is_due(Held(), NAMES, START)


@pytest.mark.parametrize(
    ("held", "names", "now", "expected"),
    [
        pytest.param(FIRST, NAMES, START + LIFE * 0.5, DueParts(), id="young"),
        pytest.param(FIRST, NAMES, START + LIFE * 0.7, DueParts(server=True), id="past two thirds of its life"),
        pytest.param(FIRST, NAMES, START + LIFE * 1.1, DueParts(server=True), id="expired while nobody ran"),
        pytest.param(FIRST, NAMES, START + AUTHORITY_LIFE * 1.1, DueParts(True, True), id="so has the authority"),
        pytest.param(FIRST, NAMES, START - timedelta(hours=1), DueParts(True, True), id="a clock was wrong"),
        pytest.param(FIRST, ("other.ns.svc",), START, DueParts(server=True), id="for other names"),
        pytest.param(Held(FIRST.authorities, None, FIRST.server), NAMES, START, DueParts(True), id="key lost"),
        pytest.param(Held(FIRST.authorities, FIRST.signer), NAMES, START, DueParts(server=True), id="certificate lost"),
        pytest.param(
            Held(OTHER.authorities, OTHER.signer, FIRST.server), NAMES, START, DueParts(server=True), id="of a stranger"
        ),
        pytest.param(read({}), NAMES, START, DueParts(True, True), id="an empty Secret"),
        pytest.param(
            read(dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), b"-----BEGIN CERTIFICATE-----\nx")),
            NAMES, START, DueParts(True, True), id="rubbish",
        ),
        pytest.param(
            read(make_secret_data(FIRST) | {certificates.KEY: make_secret_data(OTHER)[certificates.KEY]}), NAMES, START,
            DueParts(server=True), id="another's key",
        ),
        pytest.param(
            read(make_secret_data(FIRST) | {certificates.KEY: encrypted(FIRST)}), NAMES, START,
            DueParts(server=True), id="a key with a password",
        ),
        pytest.param(
            read(make_secret_data(FIRST) | {certificates.AUTHORITY_KEY: unsupported()}), NAMES, START,
            DueParts(authority=True), id="a key of an unknown kind",
        ),
    ],
)  # fmt: skip
def test_what_is_due(held: Held, names: tuple[str, ...], now: datetime, expected: DueParts) -> None:
    assert find_due(held, names, now) == expected
    assert find_due(renew_what_is_due(held, names, now), names, now) == DueParts()
