"""What users name, and what a cluster has."""

import asyncio

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.actions.choices import find_queue_label
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
    return asyncio.run(find_queue_label(Client(ScriptedTransport(*script)), "ns", asked, embedded=embedded))


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
