"""Names of requests tell whose attempt they are, and which."""

import pytest

from muster.controllers.provisioning.names import name_request, name_template, parse_attempt


def test_names_are_kueues() -> None:
    assert name_request("job-a-1", "room", 2) == "job-a-1-room-2"
    assert name_template("job-a-1-room-2", "main") == "ppt-job-a-1-room-2-main"


@pytest.mark.parametrize(
    ("request_name", "attempt"),
    [
        ("w-c-1", 1),
        ("w-c-12", 12),
        ("w-c-", None),
        ("w-c-x", None),
        ("w-c-1-1", None),
        ("v-c-1", None),
        ("w-d-1", None),
    ],
)
def test_an_attempt_is_read_from_the_name(request_name: str, attempt: int | None) -> None:
    assert parse_attempt(request_name, "w", "c") == attempt


def test_a_name_that_is_too_long_is_cut_and_still_tells_its_attempt() -> None:
    long = "w" * 250
    names = [name_request(long, "c", attempt) for attempt in (1, 2, 3)]
    assert len(set(names)) == 3
    assert {len(name) for name in names} == {253}
    assert [parse_attempt(name, long, "c") for name in names] == [1, 2, 3]
    assert parse_attempt(names[0], long, "d") is None
