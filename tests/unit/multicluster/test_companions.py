"""Which PodGroups go along, what is made of them, and what is asked of both clusters for that."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.multicluster.scripts import answer, asked, refusal
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.core import Pod
from muster.api.meta import OwnerReference
from muster.api.ours.elastic import BINDING_ANNOTATION, HELD_ANNOTATION
from muster.api.podgroups import kep
from muster.api.podgroups.names import GROUP_NAME_ANNOTATION, POD_GROUP_LABEL, TAKEN_BACK_ANNOTATION
from muster.api.status import ApiError
from muster.jobs.podgroup.reference import By, GroupReference
from muster.multicluster.companions import StrangerError, bring_pod_group, copy, is_barred, list_pod_groups
from muster.runtime.client import Client
from muster.runtime.transport import Response

OWNER = OwnerReference(api_version="kueue.x-k8s.io/v1beta2", kind="Workload", name="w", uid="u")


def pod(**says: Any) -> Pod:
    return msgspec.convert({"metadata": says}, Pod)


G = {GROUP_NAME_ANNOTATION: "g"}


@pytest.mark.parametrize(
    ("pods", "groups"),
    [
        ([], []),
        ([pod()], []),
        ([pod(annotations=G), pod(annotations=G)], [GroupReference(By.ANNOTATION, "g")]),
        (
            [pod(annotations=G), pod(labels={POD_GROUP_LABEL: "h"})],
            [GroupReference(By.ANNOTATION, "g"), GroupReference(By.LABEL, "h")],
        ),
        ([pod(annotations=G, labels={POD_GROUP_LABEL: "h"})], []),  # it is not scheduled
        ([pod(annotations={GROUP_NAME_ANNOTATION: ""})], []),
    ],
)
def test_each_group_that_can_be_meant_goes_along_once(pods: list[Pod], groups: list[GroupReference]) -> None:
    assert list_pod_groups(pods) == groups


def test_a_copy_has_what_it_asks_for_and_nothing_that_its_server_or_scheduler_has_written() -> None:
    written = dict.fromkeys((BINDING_ANNOTATION, HELD_ANNOTATION, TAKEN_BACK_ANNOTATION), "p-0")
    meta = {
        "name": "g",
        "namespace": "n",
        "uid": "here",
        "resourceVersion": "7",
        "labels": {"team": "a"},
        "annotations": {"muster.dev/disruption-budget": "true"} | written,
        "finalizers": ["f"],
        "ownerReferences": [{"name": "set"}],
    }
    document = {"metadata": meta, "spec": {"minMembers": 3, "other": [1]}, "status": {"phase": "Running"}}
    assert copy(kep.POD_GROUP, document, "m", OWNER) == {
        "apiVersion": kep.POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "n",
            "labels": {"team": "a", "kueue.x-k8s.io/multikueue-origin": "m"},
            "annotations": {"muster.dev/disruption-budget": "true"},
            "ownerReferences": [{"apiVersion": OWNER.api_version, "kind": "Workload", "name": "w", "uid": "u"}],
        },
        "spec": {"minMembers": 3, "other": [1]},
    }


GROUP = GroupReference(By.LABEL, "g")  # of one kind alone
NONE, NO_KIND = refusal(404, "NotFound", name="g"), refusal(404, "NotFound")
THERE = refusal(409, "AlreadyExists", name="g")


def group(origin: str = "", *owners: str) -> Response:
    labels = {"kueue.x-k8s.io/multikueue-origin": origin} if origin else {}
    meta = {"name": "g", "namespace": "n", "labels": labels, "ownerReferences": [{"uid": owner} for owner in owners]}
    return answer({"metadata": meta, "spec": {"minMember": 3}})


@pytest.mark.parametrize(
    ("here", "there", "requests"),
    [
        pytest.param(group(), [answer()], ["POST podgroups"], id="it is made"),
        pytest.param(group(), [NO_KIND], ["POST podgroups"], id="the worker has no such kind"),
        pytest.param(NO_KIND, [], [], id="there is no such kind here"),
        pytest.param(group(), [THERE, group("m", "u")], ["POST podgroups", "GET g"], id="it is there"),
        pytest.param(
            group(),
            [THERE, group("m", "v"), answer()],
            ["POST podgroups", "GET g", "PATCH g"],
            id="it is there, of another clone as well",
        ),
    ],
)
def test_what_the_worker_is_asked_to_have(here: Response, there: list[Response], requests: list[str]) -> None:
    source = Client(ScriptedTransport(here))
    _, lines, bodies = asyncio.run(
        asked(lambda client: bring_pod_group(source, client, GROUP, "n", "m", OWNER), *there)
    )
    assert lines == requests
    if "PATCH g" in lines:
        assert [one["uid"] for one in bodies[-1]["metadata"]["ownerReferences"]] == ["v", "u"]


@pytest.mark.parametrize(
    ("here", "there", "error", "code"),
    [
        pytest.param(NONE, [], ApiError, 404, id="there is none here"),
        pytest.param(refusal(403, "Forbidden"), [], ApiError, 403, id="it may not be read here"),
        pytest.param(group(), [refusal(403, "Forbidden")], ApiError, 403, id="it may not be made there"),
        pytest.param(group(), [THERE, group()], StrangerError, None, id="another has made one of that name"),
        pytest.param(group(), [THERE, group("other")], StrangerError, None, id="another manager has"),
    ],
)
def test_what_cannot_be_brought(
    here: Response, there: list[Response], error: type[Exception], code: int | None
) -> None:
    source = Client(ScriptedTransport(here))
    with pytest.raises(error) as raised:
        asyncio.run(asked(lambda client: bring_pod_group(source, client, GROUP, "n", "m", OWNER), *there))
    assert getattr(raised.value, "code", None) == code


@pytest.mark.parametrize(
    ("said", "barred"),
    [(NONE, False), (NO_KIND, False), (group("m"), False), (group(), True), (group("other"), True)],
    ids=["none", "no such kind", "its own", "another's", "another manager's"],
)
def test_a_worker_is_barred_by_a_group_that_another_has_made(said: Response, barred: bool) -> None:
    outcome, _, _ = asyncio.run(asked(lambda client: is_barred(client, GROUP, "n", "m"), said))
    assert outcome is barred
