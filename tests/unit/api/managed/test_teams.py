"""Tests of the rules about teams: whose queue is whose, and where work of no team may run."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.kueue import ClusterQueue, ClusterQueueSpec
from muster.api.managed.teams import find_teams, is_open, is_shared, list_queues_of, refuse_work
from muster.api.meta import ObjectMeta
from muster.api.ours.creation import CREATED_ANNOTATION
from muster.api.ours.teams import FOLLOWS_NODES, QUEUE_USERS, QUOTA_OF, WITHOUT_TEAM

START = datetime(2026, 1, 1, tzinfo=UTC)


def queue(name: str, age: int = 0, **annotations: str) -> ClusterQueue:
    texts = {"users": QUEUE_USERS, "of": QUOTA_OF, "follows": FOLLOWS_NODES, "without": WITHOUT_TEAM}
    texts |= {"created": CREATED_ANNOTATION}
    meta = ObjectMeta(
        name=name,
        creation_timestamp=START - timedelta(days=age),
        annotations={texts[key]: text for key, text in annotations.items()},
    )
    return ClusterQueue(metadata=meta, spec=ClusterQueueSpec())


ALL = queue("all", follows="true")
VISION, SPEECH = queue("vision", 1, users="ada,bob", of="all"), queue("speech", 2, users="bob", of="all")


def test_the_oldest_team_of_a_user_comes_first() -> None:
    teams = find_teams([VISION, ALL, SPEECH])
    assert [team.queue for team in teams] == ["speech", "vision"]
    assert list_queues_of("bob", teams) == ["speech", "vision"]
    assert list_queues_of("ada", teams) == ["vision"]
    assert list_queues_of("eve", teams) == []


def test_of_two_teams_of_one_second_the_first_is_the_older_one() -> None:
    moments = {"vision": START.replace(microsecond=100), "speech": START.replace(microsecond=200)}
    made = [queue(name, users="bob", created=at.isoformat()) for name, at in moments.items()]
    assert [team.queue for team in find_teams(made[::-1])] == ["vision", "speech"]


@pytest.mark.parametrize(
    ("one", "shared"),
    [(ALL, True), (VISION, False), (queue("own"), False), (queue("x", users="", follows="true"), False)],
)
def test_a_shared_queue_is_one_that_teams_take_parts_of(one: ClusterQueue, shared: bool) -> None:
    assert is_shared(one, find_teams([VISION])) is shared
    assert is_shared(queue("all"), find_teams([VISION])) is True


@pytest.mark.parametrize(
    ("setting", "with_teams", "without_teams"), [("", False, True), ("true", True, True), ("false", False, False)]
)
def test_other_work_runs_while_there_are_no_teams(setting: str, with_teams: bool, without_teams: bool) -> None:
    one = queue("all", follows="true", without=setting)
    assert is_open(one, find_teams([VISION])) is with_teams
    assert is_open(one, []) is without_teams


CLOSED = queue("all", follows="true", without="false")
ADD = "an administrator may run: muster queue edit"
NO_TEAM = f"user eve is in no team, and other work does not run here; {ADD}"


@pytest.mark.parametrize(
    ("user", "target", "queues", "why"),
    [
        ("eve", None, [ALL], ""),
        ("eve", ALL, [ALL], ""),
        ("eve", None, [ALL, VISION], f"{NO_TEAM} vision --add-users eve"),
        ("eve", ALL, [ALL, VISION, SPEECH], f"{NO_TEAM} speech --add-users eve"),
        ("eve", None, [VISION], f"{NO_TEAM} vision --add-users eve"),
        ("eve", queue("own"), [ALL, VISION, queue("own")], ""),
        ("eve", VISION, [ALL, VISION], f"queue vision is for ada, bob, and not for eve; {ADD} vision --add-users eve"),
        ("ada", VISION, [ALL, VISION], ""),
        ("eve", queue("x", users=""), [ALL], f"queue x is for nobody, and not for eve; {ADD} x --add-users eve"),
        (
            "bob",
            ALL,
            [ALL, VISION, SPEECH],
            "work outside the queues of teams does not run here: use queue speech or vision",
        ),
        ("eve", ALL, [CLOSED], "work outside the queues of teams does not run here, and there is no team"),
        ("eve", None, [queue("all", follows="true", without="true"), VISION], ""),
    ],
)
def test_other_work_is_refused_with_what_to_do(
    user: str, target: ClusterQueue | None, queues: list[ClusterQueue], why: str
) -> None:
    where = next((one for one in queues if target is not None and one.metadata.name == target.metadata.name), target)
    assert refuse_work(user, where, queues, find_teams(queues)) == why
