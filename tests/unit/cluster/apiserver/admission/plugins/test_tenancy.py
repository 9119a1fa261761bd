"""In which namespaces a system server admits pods."""

import asyncio
from typing import Any

import msgspec
import pytest

from muster.api.core import NAMESPACE, NODE, POD
from muster.api.kinds import Kind
from muster.api.kueue import MULTI_KUEUE_CLUSTER
from muster.api.ours.embedded import NODE_KIND_LABEL, PROCESS, SIMULATED
from muster.api.ours.unixusers import UNIX_UID, UNIX_USER
from muster.api.status import ApiError
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.plugins.tenancy import require_tenancy
from muster.cluster.apiserver.identity.users import MASTERS, User
from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.store import Key, MemoryJournal, Put, Store
from muster.runtime.process.accounts import Account

ADA = Account("ada", 1000, 1000, (1000,), "/home/ada", "/bin/sh")
PROCESS_NODE = (NODE, {"name": "node-0", "labels": {NODE_KIND_LABEL: PROCESS}})
SIMULATED_NODE = (NODE, {"name": "sim-0", "labels": {NODE_KIND_LABEL: SIMULATED}})
OTHER_CLUSTER = (MULTI_KUEUE_CLUSTER, {"name": "worker"})
OWNED = {UNIX_USER: "ada", UNIX_UID: "1000"}

Objects = list[tuple[Kind[Any], dict[str, Any]]]


def put(kind: Kind[Any], meta: dict[str, Any]) -> Put:
    body = msgspec.json.encode({"metadata": meta | {"uid": meta["name"]}})
    return Put(Key(kind.resource, "", meta["name"]), lambda _revision: body)


def admit(annotations: dict[str, str], objects: Objects, *, old: dict[str, Any] | None = None) -> None:
    """Let root create or change a plain pod in a namespace with these annotations. Raises `ApiError`."""
    document = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    root, operation = User("unix:root", frozenset({MASTERS})), "CREATE" if old is None else "UPDATE"
    resource = Resource(POD, POD, View(POD), verbs=())
    attempt = WriteAttempt(resource, operation, "lab", "p", root, document, View(POD), old=old)

    async def story() -> None:
        async with Store(MemoryJournal(), header_of) as store:
            namespace = put(NAMESPACE, {"name": "lab", "annotations": annotations})
            await store.write(namespace, *(put(kind, meta) for kind, meta in objects))
            require_tenancy(lambda _uid: ADA)(attempt, store)

    asyncio.run(story())


def test_a_pod_of_no_user_is_refused_where_all_pods_run_as_users() -> None:
    with pytest.raises(ApiError, match="namespace lab belongs to no Unix user") as refusal:
        admit({}, [PROCESS_NODE])
    assert refusal.value.code == 403
    admit(OWNED, [PROCESS_NODE])


@pytest.mark.parametrize(
    "objects", [[], [SIMULATED_NODE], [PROCESS_NODE, SIMULATED_NODE], [PROCESS_NODE, OTHER_CLUSTER]]
)
def test_a_pod_of_no_user_is_admitted_where_something_else_may_run_it(objects: Objects) -> None:
    admit({}, objects)


def test_an_object_of_no_user_from_before_can_be_changed() -> None:
    old = {"metadata": {"name": "p"}, "spec": {"nodeSelector": {"a": "b"}}}  # a job that stops gets its own one back
    admit({}, [PROCESS_NODE], old=old)
