"""Who may say that an object belongs to another one."""

from typing import Any

import pytest
from tests.system.apiserver.harness import DEFAULT, MAPS, api, config_map

from muster.cluster.apiserver.identity.users import AUTHENTICATED, User

JANE = User("jane", frozenset({AUTHENTICATED}))
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
WRITE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch", "get"]}
DELETE = WRITE | {"verbs": ["delete"]}
FINALIZE = {"apiGroups": [""], "resources": ["pods/finalizers"], "verbs": ["update"], "resourceNames": ["o"]}


def owner(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"} | fields


async def allow(api: Any, *rules: Any) -> None:
    await api.made(ROLES, {"metadata": {"name": "r"}, "rules": rules})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": JANE.name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    await api.made(BINDINGS, {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference})


FORBIDDEN = 'configmaps "m" is forbidden: '
UNDELETABLE = FORBIDDEN + "cannot set an ownerRef on a resource you can't delete: , <nil>"
UNBLOCKABLE = FORBIDDEN + (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
)
UNKNOWN = FORBIDDEN + (
    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion a/v1 Kind B: "
    'no matches for kind "B" in version "a/v1"'
)


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        ([WRITE], owner(), ""),
        ([WRITE], owner(blockOwnerDeletion=False), ""),
        ([WRITE], owner(blockOwnerDeletion=True), UNBLOCKABLE),
        ([WRITE, FINALIZE], owner(blockOwnerDeletion=True), ""),
        ([WRITE, FINALIZE], owner(name="p", blockOwnerDeletion=True), UNBLOCKABLE),
        ([WRITE], owner(apiVersion="a/v1", kind="B", blockOwnerDeletion=True), UNKNOWN),
        ([WRITE], owner(apiVersion="a/v1", kind="B"), ""),
    ],
)
@api
async def test_owners_of_new_objects(api, rules, given, expected):
    await allow(api, *rules)
    answer = await api.post(MAPS, config_map(ownerReferences=[given]), user=JANE)
    assert (answer.status, answer.json.get("message", "")) == ((403, expected) if expected else (201, ""))


@api
async def test_owners_are_changed_by_those_who_may_delete(api):
    await allow(api, WRITE)
    await api.made(MAPS, config_map())
    change = {"metadata": {"ownerReferences": [owner()]}}
    assert (await api.merge(f"{MAPS}/m", change, user=JANE)).message == UNDELETABLE
    assert (await api.merge(f"{MAPS}/m", {"data": {"a": "b"}}, user=JANE)).status == 200
    await api.merge(f"{ROLES}/r", {"rules": [WRITE, DELETE]})
    assert (await api.merge(f"{MAPS}/m", change, user=JANE)).status == 200
    blocking = {"metadata": {"ownerReferences": [owner(blockOwnerDeletion=True)]}}
    assert (await api.merge(f"{MAPS}/m", blocking, user=JANE)).message == UNBLOCKABLE


@api
async def test_masters_may(api):
    await api.made(MAPS, config_map(ownerReferences=[owner(blockOwnerDeletion=True)]))
    assert (await api.get(DEFAULT + "/configmaps/m")).status == 200
