"""Names and chance: well-formed, and the same again with the same seed."""

import uuid

import pytest

from muster.runtime.ids import SAFE_ALPHABET, Ids, Random


@pytest.mark.parametrize("ids", [Ids(), Ids(seed=1)])
def test_uid_is_a_version_4_uuid(ids: Ids) -> None:
    uids = [ids.uid() for _ in range(1000)]
    assert len(set(uids)) == 1000
    for uid in uids:
        parsed = uuid.UUID(uid)
        assert (str(parsed), parsed.version, parsed.variant) == (uid, 4, uuid.RFC_4122)


@pytest.mark.parametrize("ids", [Ids(), Ids(seed=1)])
def test_suffix_uses_the_safe_alphabet(ids: Ids) -> None:
    suffix = ids.suffix()
    assert len(suffix) == 5
    assert len(ids.suffix(10)) == 10
    assert set("".join(ids.suffix() for _ in range(500))) <= set(SAFE_ALPHABET)


def test_hexadecimal_is_padded() -> None:
    ids = Ids(seed=1)
    for digits in (1, 8, 16):
        assert all(len(ids.hexadecimal(digits)) == digits for _ in range(50))


def test_seed_decides_everything() -> None:
    def draw(seed: int) -> list[object]:
        ids, random = Ids(seed), Random(seed)
        return [ids.uid(), ids.suffix(), ids.hexadecimal(), random.fraction(), random.jitter(10)]

    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


@pytest.mark.parametrize("random", [Random(), Random(seed=3)])
def test_jitter_stays_in_its_bounds(random: Random) -> None:
    for _ in range(200):
        assert 10 <= random.jitter(10) < 20
        assert 10 <= random.jitter(10, 0.1) < 11
        assert 0 <= random.fraction() < 1
