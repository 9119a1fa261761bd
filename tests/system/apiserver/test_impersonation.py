"""Requests on somebody else's behalf, as kubectl `--as` makes them."""

import json

import pytest
from tests.system.apiserver.harness import DEFAULT, PODS, api
from tests.system.apiserver.test_https_front import over_https

from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.runtime.clock import RealClock

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BOB = User("bob", frozenset({AUTHENTICATED}))


def as_(user, *groups, **more):
    names = [("impersonate-user", user), *(("impersonate-group", group) for group in groups)]
    return (*names, *((f"impersonate-{name}", value) for name, value in more.items()))


async def let_bob_impersonate(api, resource, *names, group=""):
    rule = {"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"], "resourceNames": list(names)}
    name = resource.replace("/", "-")
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await api.made(f"{RBAC}/clusterrolebindings", binding)


@api
async def test_the_rights_are_those_of_the_other(api):
    assert (await api.get(PODS)).status == 200
    answer = await api.get(PODS, headers=as_("eve"))
    assert answer.message == (
        'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    assert (await api.get(PODS, headers=as_("eve", "system:masters"))).status == 200
    user = (await api.post(SELF, {}, headers=as_("eve", "devs", uid="u", **{"extra-team": "red"}))).json["status"]
    assert user["userInfo"] == {
        "username": "eve",
        "uid": "u",
        "groups": ["devs", AUTHENTICATED],
        "extra": {"team": ["red"]},
    }


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        (as_("eve"), None),
        (as_("carol"), 'users "carol" is forbidden: User "bob" cannot impersonate resource "users" in API group ""'),
        (as_("eve", "devs"), None),
        (as_("eve", "system:masters"), 'groups "system:masters" is forbidden'),
        (as_("eve", uid="1"), 'uids.authentication.k8s.io "1" is forbidden'),
        (as_("eve", **{"extra-team": "red"}), None),
        (as_("eve", **{"extra-team": "blue"}), 'userextras.authentication.k8s.io "blue" is forbidden'),
        (as_("eve", **{"extra-other": "red"}), 'cannot impersonate resource "userextras/other"'),
        (as_("system:serviceaccount:default:robot"), 'serviceaccounts "robot" is forbidden'),
    ],
)
@api
async def test_who_may_be_impersonated(api, headers, what):
    await let_bob_impersonate(api, "users", "eve")
    await let_bob_impersonate(api, "groups", "devs")
    await let_bob_impersonate(api, "userextras/team", "red", group="authentication.k8s.io")
    answer = await api.post(SELF, {}, user=BOB, headers=headers)
    if what is None:
        assert answer.json["status"]["userInfo"]["username"] == "eve"
    else:
        assert answer.status == 403
        assert what in answer.message


@api
async def test_editors_may_act_as_the_accounts_of_their_namespace(api):
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await api.made(f"{RBAC}/namespaces/default/rolebindings", binding)
    own, other = (as_(f"system:serviceaccount:{namespace}:robot") for namespace in ("default", "kube-system"))
    groups = (await api.post(SELF, {}, user=BOB, headers=own)).json["status"]["userInfo"]["groups"]
    assert groups == ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default"]
    assert (await api.post(SELF, {}, user=BOB, headers=other)).status == 403


@over_https
async def test_headers_over_the_wire(world):
    admin = await world.connect()
    answer = await admin.ask("GET", PODS, impersonate_user="eve")
    assert (answer.status, 'User "eve" cannot list' in answer.json["message"]) == (403, True)
    answer = await admin.ask("POST", SELF, b"{}", Impersonate_User="eve", Impersonate_Extra_Acme="x%2Fy")
    assert answer.json["status"]["userInfo"]["username"] == "eve"
    assert (await admin.ask("GET", PODS, impersonate_group="x")).status == 400
    authority = Authority(world.directory / "pki", RealClock().now())
    stranger = await world.connect(authority.client("bob", BOB))
    answer = await stranger.ask("GET", f"{DEFAULT}/secrets", impersonate_user="kubernetes-admin")
    assert answer.json["message"].startswith('users "kubernetes-admin" is forbidden: User "bob" cannot impersonate')
    admin.send(
        f"POST {SELF} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nimpersonate-user: eve\r\n"
        "impersonate-group: a\r\nimpersonate-group: b\r\n\r\n{}".encode()
    )
    groups = json.loads((await admin.answer()).body)["status"]["userInfo"]["groups"]
    assert groups == ["a", "b", AUTHENTICATED]
