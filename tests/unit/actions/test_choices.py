"""What users name, and what a cluster has."""

import asyncio

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.actions.choices import no_job, queue_to_name
from muster.actions.errors import UserError
from muster.actions.submission.caller import find_account_name
from muster.api.ours.teams import QUEUE_USERS
from muster.runtime.client import Client
from muster.runtime.transport import Response

LOCAL = {"metadata": {"name": "default", "namespace": "ns"}, "spec": {"clusterQueue": "vision"}}
THERE = Response(200, msgspec.json.encode(LOCAL))
OF_ALL = Response(200, b'{"metadata": {"name": "vision"}}')
TEAM = Response(200, msgspec.json.encode({"metadata": {"name": "vision", "annotations": {QUEUE_USERS: "ada,bob"}}}))
NONE, FORBIDDEN = Response(404, b"no"), Response(403, b"no")
MISSING = Response(404, b'{"reason": "NotFound"}')


def named(asked, *script, embedded=False):
    return asyncio.run(queue_to_name(Client(ScriptedTransport(*script)), "ns", asked, embedded=embedded))


def test_a_job_names_the_queue_that_it_is_to_wait_in():
    assert named("vision", THERE, OF_ALL) == "vision"
    assert named("vision", THERE, FORBIDDEN) == "vision"
    assert named("", THERE) == "default"
    assert named("vision", THERE, NONE, embedded=True) == "vision"
    assert named("", embedded=True) == "", "the cluster does it, and is not asked"


@pytest.mark.parametrize("answer", [NONE, FORBIDDEN])
def test_where_no_queue_is_to_be_seen_none_is_named(answer):
    assert named("", answer) == ""


def test_a_queue_that_is_not_there_is_told():
    with pytest.raises(UserError, match="no queue vision in namespace ns; it has none"):
        named("vision", MISSING, NONE, MISSING, Response(200, b'{"items": []}'))


def who(name, *groups):
    return Response(201, msgspec.json.encode({"status": {"userInfo": {"username": name, "groups": groups}}}))


@pytest.mark.parametrize("local", [THERE, MISSING])
def test_the_queue_of_another_team_is_refused_with_whom_to_ask(local):
    advice = "an administrator may run: muster queue edit vision --add-users eve"
    why = f"queue vision is for ada, bob, and not for eve; {advice}"
    for name in ("unix:eve", "system:serviceaccount:muster-users:eve"):
        with pytest.raises(UserError, match=f"^{why}$"):
            named("vision", local, TEAM, who(name))
    assert named("vision", THERE, TEAM, who("unix:ada")) == "vision"


def test_an_administrator_submits_as_the_account_of_the_machine():
    with pytest.raises(UserError, match=f"and not for {find_account_name()};"):
        named("vision", THERE, TEAM, who("ada", "system:masters"))


def member(name, phase="Running", size="2"):
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "labels": {"kueue.x-k8s.io/pod-group-name": "train"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": size},
        },
        "status": {"phase": phase},
    }


SELECTED = "-n ns -l kueue.x-k8s.io/pod-group-name=train"
REMOVE = f"(to remove it: kubectl delete pods {SELECTED})"


@pytest.mark.parametrize(
    ("pods", "sentence"),
    [
        ([member("p", "Pending")], f": its pod group queues once it has 2 pods, and it has 1 {REMOVE}"),
        (
            [member("p", "Pending"), member("q", "Pending")],
            f": its pod group does not queue, and an event says why: kubectl describe pods {SELECTED} {REMOVE}",
        ),
        ([member("p", "Failed")], "; did you mean trains?"),
        ([], "; did you mean trains?"),
    ],
)
def test_of_a_group_that_does_not_queue_yet_it_is_told_why(pods, sentence):
    jobs = Response(200, msgspec.json.encode({"items": [{"metadata": {"name": "trains"}}]}))
    transport = ScriptedTransport(NONE, jobs, Response(200, msgspec.json.encode({"items": pods})))
    said = asyncio.run(no_job(Client(transport), "train", "ns"))
    assert said == f"there is no job train in namespace ns{sentence}"


def test_of_a_name_that_no_pod_group_can_have_nothing_is_told():
    transport = ScriptedTransport(NONE, NONE, Response(400, b"no"))
    assert asyncio.run(no_job(Client(transport), "a b", "")) == "there is no job a b"
