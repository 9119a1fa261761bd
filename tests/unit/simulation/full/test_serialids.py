"""UIDs in the order of creation."""

from uuid import UUID

from muster.simulation.full.serialids import SerialIds


def test_uids_ascend_and_are_uuids():
    ids = SerialIds(7)
    uids = [ids.uid() for _ in range(300)]
    assert uids == sorted(uids)
    assert {UUID(uid).version for uid in uids} == {4}
    assert uids != [SerialIds(8).uid() for _ in range(300)]
