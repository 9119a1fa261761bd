"""The sentence about a name that no job has."""

import asyncio

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.actions.jobs.lookup import explain_missing_job
from muster.runtime.client import Client
from muster.runtime.transport import Response

NONE = Response(404, b"no")


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
    said = asyncio.run(explain_missing_job(Client(transport), "train", "ns"))
    assert said == f"there is no job train in namespace ns{sentence}"


def test_of_a_name_that_no_pod_group_can_have_nothing_is_told():
    transport = ScriptedTransport(NONE, NONE, Response(400, b"no"))
    assert asyncio.run(explain_missing_job(Client(transport), "a b", "")) == "there is no job a b"
