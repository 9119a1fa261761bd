"""Roles and bindings decide who may do what; nobody gives rights that he has not; reviews tell."""

import json

import pytest
from tests.system.apiserver.harness import DEFAULT, JOBS, MAPS, NAMESPACES, PODS, TABLE, Api, api, config_map, pod

from muster.api.core import NAMESPACE
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE
from muster.cluster.apiserver.identity.users import AUTHENTICATED, MASTERS, User, account_groups, account_name
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import JSON, Request

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
CLUSTER_ROLES = f"{RBAC}/clusterroles"
CLUSTER_BINDINGS = f"{RBAC}/clusterrolebindings"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"

BOB = User("bob", frozenset({AUTHENTICATED, "devs"}))
CAROL = User("carol", frozenset({AUTHENTICATED}))


def rule(verbs, *resources, group="", names=()):
    given = {"apiGroups": [group], "resources": list(resources), "verbs": verbs.split(",")}
    return given | ({"resourceNames": list(names)} if names else {})


def role(name, *rules, labels=None, **more):
    return {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules), **more}


def binding(name, kind, role_name, *subjects):
    subjects = subjects or ({"kind": "User", "name": "bob"},)
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role_name}, "subjects": list(subjects)}


async def give(api: Api, *rules, user="bob", name="r"):
    """Let a user do this in the namespace `default`."""
    await api.made(ROLES, role(name, *rules))
    await api.made(BINDINGS, binding(name, "Role", name, {"kind": "User", "name": user}))


# ---- decisions


@api
async def test_who_was_given_nothing_may_nothing(api):
    answer = await api.get(PODS, user=BOB)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    assert answer.json["details"] == {"kind": "pods"}
    answer = await api.delete(f"{JOBS}/j", user=BOB)
    assert answer.message == (
        'jobs.batch "j" is forbidden: User "bob" cannot delete resource "jobs" in API group "batch" '
        'in the namespace "default"'
    )
    assert (await api.get("/metrics", user=BOB)).message == 'forbidden: User "bob" cannot get path "/metrics"'


@api
async def test_who_loses_a_right_while_the_body_comes_may_not(api):
    await give(api, rule("create", "configmaps"))
    body = json.dumps(config_map("c")).encode()
    for name, status in (("kept", 201), ("lost", 403)):
        exchange = api.server.begin(Request("POST", MAPS, {}, b"", JSON), BOB)
        if name == "lost":
            await api.delete(f"{BINDINGS}/r")
        exchange.store_body(body)
        assert (await api.server.answer(exchange)).status == status


@api
async def test_everybody_known_may_look_around(api):
    for path in ("/api", "/apis", "/api/v1", "/apis/batch/v1", "/openapi/v2", "/openapi/v3", "/version", "/livez"):
        assert (await api.get(path, user=CAROL)).status == 200, path


@api
async def test_a_role_works_from_when_it_was_bound_until_it_is_taken_away(api):
    await give(api, rule("get,list", "pods"))
    assert (await api.get(PODS, user=BOB)).status == 200
    assert (await api.get(PODS, user=CAROL)).status == 403
    assert (await api.get(f"{NAMESPACES}/kube-system/pods", user=BOB)).status == 403
    assert (await api.get("/api/v1/pods", user=BOB)).status == 403
    assert (await api.post(PODS, pod(), user=BOB)).status == 403
    await api.merge(f"{ROLES}/r", {"rules": [rule("create", "pods")]})
    assert (await api.get(PODS, user=BOB)).status == 403
    assert (await api.post(PODS, pod(), user=BOB)).status == 201
    await api.delete(f"{BINDINGS}/r")
    assert (await api.post(PODS, pod("q"), user=BOB)).status == 403


SUBJECTS = [
    ({"kind": "User", "name": "bob"}, BOB, True),
    ({"kind": "User", "name": "carol"}, BOB, False),
    ({"kind": "Group", "name": "devs"}, BOB, True),
    ({"kind": "User", "name": "devs"}, BOB, False),
    ({"kind": "ServiceAccount", "name": "robot", "namespace": "n"}, "n", True),
    ({"kind": "ServiceAccount", "name": "robot"}, "default", True),
    ({"kind": "ServiceAccount", "name": "robot"}, "n", False),
    ({"kind": "Group", "name": "system:serviceaccounts:n"}, "n", True),
    ({"kind": "Group", "name": "system:serviceaccounts"}, "n", True),
]


@pytest.mark.parametrize(("subject", "who", "bound"), SUBJECTS)
@api
async def test_subjects(api, subject, who, bound):
    user = who if isinstance(who, User) else User(account_name(who, "robot"), account_groups(who))
    await api.made(BINDINGS, binding("b", "ClusterRole", "view", subject))
    assert (await api.get(PODS, user=user)).status == (200 if bound else 403)


@api
async def test_a_cluster_role_holds_where_it_is_bound(api):
    await api.made(BINDINGS, binding("b", "ClusterRole", "view"))
    assert (await api.get(PODS, user=BOB)).status == 200
    assert (await api.get("/api/v1/nodes", user=BOB)).status == 403
    await api.made(CLUSTER_ROLES, role("nodes", rule("list", "nodes")))
    await api.made(CLUSTER_BINDINGS, binding("c", "ClusterRole", "nodes"))
    assert (await api.get("/api/v1/nodes", user=BOB)).status == 200
    assert (await api.get("/api/v1/pods", user=BOB)).status == 403


@api
async def test_one_object_may_be_listed_by_its_name(api):
    await give(api, rule("get,list,watch", "configmaps", names=["mine"]))
    await api.made(MAPS, config_map("mine"))
    assert (await api.get(f"{MAPS}/mine", user=BOB)).status == 200
    assert (await api.get(f"{MAPS}/other", user=BOB)).status == 403
    assert (await api.get(MAPS, user=BOB)).status == 403
    assert (await api.get(MAPS, user=BOB, fieldSelector="metadata.name=mine")).names == ["mine"]
    assert (await api.get(MAPS, user=BOB, fieldSelector="metadata.name=other")).status == 403
    assert (await api.get(MAPS, user=BOB, fieldSelector="metadata.name!=mine")).status == 403


@api
async def test_long_names_do_not_stay_in_memory(api):
    await api.get(f"{MAPS}/{'n' * 2000}", user=BOB)
    await api.get(f"/{'p' * 2000}", user=BOB)
    await api.get(f"{MAPS}/short", user=User("u" * 2000))
    remembered = repr(vars(api.plane.access.rbac))
    assert not {word for word in ("n" * 2000, "p" * 2000, "u" * 2000) if word in remembered}


@api
async def test_a_selector_names_nothing_that_is_created(api):
    await give(api, rule("create,deletecollection", "configmaps", names=["mine"]))
    await api.made(MAPS, config_map("mine"))
    mine = {"fieldSelector": "metadata.name=mine"}
    assert (await api.post(MAPS, config_map("other"), user=BOB, **mine)).status == 403
    assert (await api.delete(MAPS, user=BOB)).status == 403
    assert (await api.delete(MAPS, user=BOB, **mine)).names == ["mine"]


@api
async def test_a_namespace_is_in_itself(api):
    await api.made(BINDINGS, binding("b", "ClusterRole", "view"))
    assert (await api.get(DEFAULT, user=BOB)).status == 200
    assert (await api.get(NAMESPACES, user=BOB)).status == 403
    answer = await api.get(f"{NAMESPACES}/kube-system", user=BOB)
    assert answer.message == (
        'namespaces "kube-system" is forbidden: User "bob" cannot get resource "namespaces" in API group "" '
        'in the namespace "kube-system"'
    )


@api
async def test_a_binding_of_a_role_that_is_missing_is_told(api):
    await api.made(BINDINGS, binding("b", "ClusterRole", "none"))
    answer = await api.get(PODS, user=BOB)
    assert answer.message.endswith(f'in the namespace "default": RBAC: clusterrole.{GROUP} "none" not found')


@api
async def test_subresources_are_given_by_themselves(api):
    await give(api, rule("get,patch", "pods/status"))
    await api.made(PODS, pod())
    assert (await api.get(f"{PODS}/p/status", user=BOB)).status == 200
    assert (await api.get(f"{PODS}/p", user=BOB)).status == 403
    assert (await api.get(f"{PODS}/p/log", user=BOB)).message.startswith('pods "p" is forbidden: User "bob" cannot get')


@api
async def test_an_update_makes_nothing_that_its_writer_may_not_create(api):
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    lease = {"metadata": {"name": "l"}, "spec": {}}
    await give(api, rule("update", "leases", group="coordination.k8s.io"))
    answer = await api.put(path, lease, user=BOB)
    assert (answer.status, "cannot create resource" in answer.message) == (403, True)
    await api.merge(f"{ROLES}/r", {"rules": [rule("update,create", "leases", group="coordination.k8s.io")]})
    assert (await api.put(path, lease, user=BOB)).status == 201


# ---- escalation

HELD = "is attempting to grant RBAC permissions not currently held:"
BOB_IS = 'user "bob" (groups=["devs" "system:authenticated"])'


@api
async def test_nobody_writes_a_role_that_grants_more_than_he_has(api):
    await give(api, rule("get,list", "pods"), rule("create,patch", "roles", group=GROUP))
    assert (await api.post(ROLES, role("a", rule("get", "pods")), user=BOB)).status == 201
    answer = await api.post(ROLES, role("b", rule("get,delete", "pods"), rule("get", "secrets")), user=BOB)
    assert answer.status == 403
    assert answer.message == (
        f'roles.{GROUP} "b" is forbidden: {BOB_IS} {HELD}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )
    answer = await api.merge(f"{ROLES}/a", {"rules": [rule("*", "pods")]}, user=BOB)
    assert (answer.status, HELD in answer.message) == (403, True)
    assert (await api.merge(f"{ROLES}/a", {"metadata": {"labels": {"a": "b"}}}, user=BOB)).status == 200


@api
async def test_nobody_lets_others_have_a_role_by_its_labels(api):
    await api.made(CLUSTER_ROLES, role("patcher", rule("patch", "clusterroles", group=GROUP)))
    await api.made(CLUSTER_BINDINGS, binding("p", "ClusterRole", "patcher"))
    labels = {"metadata": {"labels": {f"{GROUP}/aggregate-to-view": "true"}}}
    answer = await api.merge(f"{CLUSTER_ROLES}/cluster-admin", labels, user=BOB)
    assert (answer.status, "not currently held" in answer.message) == (403, True)
    assert (await api.merge(f"{CLUSTER_ROLES}/patcher", labels, user=BOB)).status == 200
    answer = await api.merge(f"{CLUSTER_ROLES}/view", {"aggregationRule": None, "rules": []}, user=BOB)
    assert "must have cluster-admin privileges" in answer.message
    finalizers = {"metadata": {"finalizers": ["example.com/x"]}}
    assert (await api.merge(f"{CLUSTER_ROLES}/cluster-admin", finalizers, user=BOB)).status == 200


@api
async def test_who_may_escalate_may(api):
    await give(api, rule("create,escalate", "roles", group=GROUP))
    assert (await api.post(ROLES, role("b", rule("*", "*")), user=BOB)).status == 201


@api
async def test_nobody_binds_a_role_that_grants_more_than_he_has(api):
    await give(api, rule("get", "pods"), rule("*", "rolebindings", group=GROUP))
    answer = await api.post(BINDINGS, binding("x", "ClusterRole", "cluster-admin"), user=BOB)
    assert answer.message == (
        f'rolebindings.{GROUP} "x" is forbidden: {BOB_IS} {HELD}\n'
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )
    answer = await api.post(BINDINGS, binding("x", "Role", "none"), user=BOB)
    assert (answer.status, answer.message) == (404, f'roles.{GROUP} "none" not found')
    await api.made(ROLES, role("less", rule("get", "pods")))
    assert (await api.post(BINDINGS, binding("x", "Role", "less"), user=BOB)).status == 201


@api
async def test_who_may_bind_a_role_may(api):
    rights = rule("create", "rolebindings", group=GROUP), rule("bind", "clusterroles", group=GROUP, names=["view"])
    await give(api, *rights)
    assert (await api.post(BINDINGS, binding("x", "ClusterRole", "view"), user=BOB)).status == 201
    assert (await api.post(BINDINGS, binding("y", "ClusterRole", "edit"), user=BOB)).status == 403


@api
async def test_only_who_may_everything_aggregates(api):
    await api.made(CLUSTER_ROLES, role("roles", rule("*", "clusterroles", group=GROUP)))
    await api.made(CLUSTER_BINDINGS, binding("c", "ClusterRole", "roles"))
    body = role("agg", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    await api.merge(f"{CLUSTER_ROLES}/roles", {"rules": [rule("create", "clusterroles", group=GROUP)]})
    answer = await api.post(CLUSTER_ROLES, body, user=BOB)
    why = "must have cluster-admin privileges to use an aggregationRule"
    assert answer.message == f'clusterroles.{GROUP} "agg" is forbidden: {why}'


# ---- objects


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (ROLES, role("a", {"verbs": []}), "rules[0].verbs: Required value: verbs must contain at least one value"),
        (ROLES, role("a", rule("get")), "rules[0].resources: Required value: resource rules must supply at least one"),
        (
            ROLES,
            role("a", {"verbs": ["get"], "nonResourceURLs": ["/x"]}),
            "namespaced rules cannot apply to non-resource",
        ),
        (ROLES, role("a/b", rule("get", "pods")), "metadata.name: Invalid value: \"a/b\": may not contain '/'"),
        (
            CLUSTER_ROLES,
            role("a", rule("get", "pods") | {"nonResourceURLs": ["/x"]}),
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        (CLUSTER_ROLES, role("a", aggregationRule={}), "at least one clusterRoleSelector required"),
        (CLUSTER_BINDINGS, binding("a", "Role", "x"), 'roleRef.kind: Unsupported value: "Role"'),
        (BINDINGS, binding("a", "Role", ""), "roleRef.name: Required value"),
        (
            BINDINGS,
            binding("a", "Role", "x", {"kind": "Robot", "name": "x"}),
            'subjects[0].kind: Unsupported value: "Robot"',
        ),
        (
            CLUSTER_BINDINGS,
            binding("a", "ClusterRole", "x", {"kind": "ServiceAccount", "name": "x"}),
            "subjects[0].namespace",
        ),
        (BINDINGS, binding("a", "Role", "x", {"kind": "User", "name": "x", "apiGroup": "y"}), "subjects[0].apiGroup"),
    ],
)
@api
async def test_objects_that_make_no_sense(api, path, body, why):
    answer = await api.post(path, body)
    assert answer.status == 422
    assert why in answer.message


@api
async def test_a_binding_keeps_its_role(api):
    made = await api.made(BINDINGS, binding("b", "ClusterRole", "view"))
    assert made["roleRef"] == {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    assert made["subjects"] == [{"apiGroup": GROUP, "kind": "User", "name": "bob"}]
    answer = await api.merge(f"{BINDINGS}/b", {"roleRef": {"name": "edit"}})
    assert (answer.status, "cannot change roleRef" in answer.message) == (422, True)


@api
async def test_names_may_hold_colons_and_capitals(api):
    await api.made(CLUSTER_ROLES, role("system:Some:Thing", rule("get", "pods")))
    assert (await api.get(f"{CLUSTER_ROLES}/system:Some:Thing")).status == 200


# ---- reviews


async def may(api, user, **attributes):
    body = {"spec": {"resourceAttributes": attributes}}
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", body, user=user)
    assert answer.status == 201, answer.body
    return answer.json["status"]


@api
async def test_may_i(api):
    await give(api, rule("get,list", "pods"))
    source = 'RBAC: allowed by RoleBinding "r/default" of Role "r" to User "bob"'
    asked = {"verb": "list", "resource": "pods"}
    assert await may(api, BOB, **asked, namespace="default") == {"allowed": True, "reason": source}
    assert await may(api, BOB, **asked) == {"allowed": False}
    assert await may(api, BOB, **asked, subresource="log", namespace="default") == {"allowed": False}
    assert (await may(api, User("x", frozenset({MASTERS, AUTHENTICATED})), verb="*", resource="*"))["allowed"]
    body = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}}
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", body, user=BOB)
    assert answer.json["status"]["allowed"]
    assert answer.json["kind"] == "SelfSubjectAccessReview"
    assert answer.json["spec"] == body["spec"]


@api
async def test_may_somebody_else(api):
    await give(api, rule("get", "pods"))
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
    body = {"spec": {"resourceAttributes": attributes, "user": "bob"}}
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    assert (await api.post(path, body)).json["status"]["allowed"]
    assert not (await api.post(path, {"spec": body["spec"] | {"user": "eve"}})).json["status"]["allowed"]
    assert (await api.post(path, {"spec": body["spec"] | {"groups": [MASTERS]}})).json["status"]["allowed"]
    assert (await api.post(path, body, user=BOB)).status == 403
    local = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    assert (await api.post(local, body)).json["status"]["allowed"]
    other = {"spec": body["spec"] | {"resourceAttributes": attributes | {"namespace": "x"}}}
    assert "must match metadata.namespace" in (await api.post(local, other)).message


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"user": "bob"}, "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        ({"user": "b", "resourceAttributes": {}, "nonResourceAttributes": {}}, "cannot be specified in combination"),
        (
            {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            "at least one of user or group must be specified",
        ),
    ],
)
@api
async def test_questions_that_make_no_sense(api, spec, why):
    answer = await api.post(f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
    assert answer.status == 422
    assert why in answer.message


@api
async def test_all_that_i_may(api):
    await give(api, rule("get,list", "pods"), rule("get", "configmaps", names=["a"]))
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, user=BOB)
    status = answer.json["status"]
    assert status["resourceRules"][-2:] == [rule("get,list", "pods"), rule("get", "configmaps", names=["a"])]
    assert not status["incomplete"]
    paths = {path for each in status["nonResourceRules"] for path in each["nonResourceURLs"]}
    assert {"/api/*", "/livez", "/version"} <= paths
    assert (await api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}, user=BOB)).status == 400


@api
async def test_who_am_i(api):
    user = User("bob", frozenset({"b", "a"}) | {AUTHENTICATED}, "u-1", {"scopes": ("x",)})
    answer = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user=user)
    assert answer.json["status"]["userInfo"] == {
        "username": "bob",
        "uid": "u-1",
        "groups": ["a", "b", AUTHENTICATED],
        "extra": {"scopes": ["x"]},
    }


@api
async def test_reviews_are_posted_and_nothing_else(api):
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert (await api.call("POST", path, {"spec": {}}, accept=table)).status == 406
    assert (await api.get(path)).status == 405
    assert (await api.delete(f"{path}/x")).status == 405
    found = {each["name"]: each["verbs"] for each in (await api.get(AUTHORIZATION)).json["resources"]}
    assert found["selfsubjectaccessreviews"] == ["create"]
    assert (await api.get(f"{DEFAULT}/serviceaccounts/default/token")).status == 405


# ---- at the start


@api
async def test_every_cluster_begins_with_the_roles(api):
    names = (await api.get(CLUSTER_ROLES)).names
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery", "system:auth-delegator"} <= set(names)
    view = (await api.get(f"{CLUSTER_ROLES}/view")).json
    assert view["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
    assert view["rules"]


def test_a_cluster_without_roles_has_all_else_that_clusters_begin_with():
    async def body():
        inputs = ExternalInputs(VirtualClock(), Ids(1), Random(1))
        async with control_plane(MemoryJournal(), inputs, roles=False) as plane:
            client = plane.client()
            assert not (await client.list(CLUSTER_ROLE)).items
            assert not (await client.list(CLUSTER_ROLE_BINDING)).items
            assert not (await client.list(ROLE)).items
            assert "default" in {one.metadata.name for one in (await client.list(NAMESPACE)).items}
            assert "system-node-critical" in {one.metadata.name for one in (await client.list(PRIORITY_CLASS)).items}

    run_virtual(body())


@api
async def test_how_bindings_are_printed(api):
    robot = {"kind": "ServiceAccount", "name": "robot", "namespace": "n"}
    devs = {"kind": "Group", "name": "devs"}
    await api.made(BINDINGS, binding("b", "ClusterRole", "view", {"kind": "User", "name": "bob"}, robot, devs))
    table = (await api.get(BINDINGS, accept=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Role", "Age"]
    assert table["rows"][0]["cells"] == ["b", "ClusterRole/view", "0s", "bob", "devs", "n/robot"]
