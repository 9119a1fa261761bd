"""Which queue a job waits in that names none."""

import asyncio
from typing import Any

import msgspec
import pytest

from muster.api.batch import CRON_JOB, JOB
from muster.api.core import SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.users import USER_QUEUE_ANNOTATION, USERS_NAMESPACE
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.plugins.userqueue import give_queues
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.store import Header, Key, MemoryJournal, Put, Store

ACCOUNTS = f"system:serviceaccount:{USERS_NAMESPACE}"
ADA = f"{ACCOUNTS}:ada"


def put(kind: Kind[Any], namespace: str, name: str, annotations: dict[str, str]) -> Put:
    body = msgspec.json.encode({"metadata": {"name": name, "namespace": namespace, "annotations": annotations}})
    return Put(Key(kind.resource, namespace, name), lambda _revision: body)


def admit(
    meta: dict[str, Any],
    *,
    kind: Kind[Any] = JOB,
    operation: str = "CREATE",
    subresource: str = "",
    namespace: str = "default",
) -> dict[str, str]:
    """Return the labels of a job after admission, where ada's queue is vision, and default has queues a and vision."""
    document = {"metadata": {"name": "j", **meta}}
    attempt = WriteAttempt(
        Resource(kind, kind, View(kind), verbs=()),
        operation,
        namespace,
        "j",
        User(ADA),
        document,
        View(kind),
        subresource=subresource,
    )

    async def story() -> None:
        async with Store(MemoryJournal(), lambda _resource, _body: Header()) as store:
            await store.write(
                put(SERVICE_ACCOUNT, USERS_NAMESPACE, "ada", {USER_QUEUE_ANNOTATION: "vision"}),
                put(SERVICE_ACCOUNT, USERS_NAMESPACE, "bob", {}),
                put(SERVICE_ACCOUNT, "default", "ada", {USER_QUEUE_ANNOTATION: "a"}),
                put(LOCAL_QUEUE, "default", "vision", {}),
                put(LOCAL_QUEUE, "default", "a", {}),
            )
            give_queues([JOB.resource])(attempt, store)

    asyncio.run(story())
    labels: dict[str, str] = document["metadata"].get("labels", {})
    return labels


def by(user: str) -> dict[str, Any]:
    return {"annotations": {SUBMITTER_ANNOTATION: user}}


def test_a_job_that_names_no_queue_gets_that_of_its_submitter() -> None:
    assert admit(by(ADA)) == {QUEUE_NAME_LABEL: "vision"}
    assert admit(by(ADA) | {"labels": {"a": "b"}}) == {"a": "b", QUEUE_NAME_LABEL: "vision"}
    assert admit(by(ADA) | {"labels": None}) == {QUEUE_NAME_LABEL: "vision"}


def test_a_named_queue_stays() -> None:
    assert admit(by(ADA) | {"labels": {QUEUE_NAME_LABEL: "other"}}) == {QUEUE_NAME_LABEL: "other"}


@pytest.mark.parametrize(
    "user", ["", "ada", "unix:ada", f"{ACCOUNTS}:bob", f"{ACCOUNTS}:x", "system:serviceaccount:default:ada"]
)
def test_only_users_with_a_queue_have_one(user: str) -> None:
    assert admit(by(user)) == {}


def test_a_namespace_without_that_queue_keeps_the_job_as_it_is() -> None:
    assert admit(by(ADA), namespace="elsewhere") == {}


@pytest.mark.parametrize(
    "attempt", [{"operation": "UPDATE"}, {"kind": CRON_JOB}, {"subresource": "status"}, {"kind": SERVICE_ACCOUNT}]
)
def test_nothing_but_a_new_job_is_labelled(attempt: dict[str, Any]) -> None:
    assert admit(by(ADA), **attempt) == {}


def test_the_part_of_another_object_is_not_labelled() -> None:
    assert admit({}) == {}
