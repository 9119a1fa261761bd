"""The roles that every cluster begins with, and how they are put together."""

import msgspec
import pytest

from muster.api.server.rbac import ClusterRole
from muster.api.validation.server.rbac import validate_cluster_create
from muster.cluster.apiserver.access.aggregation import aggregate_rules
from muster.cluster.apiserver.access.roles import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.cluster.apiserver.access.rules import allows, find_uncovered
from muster.cluster.apiserver.identity.users import Access, User

ROLES = {role.metadata.name: role for role in CLUSTER_ROLES}
SOMEBODY = User("somebody")


@pytest.mark.parametrize("obj", [*CLUSTER_ROLES, *CLUSTER_ROLE_BINDINGS], ids=lambda obj: obj.metadata.name)
def test_they_are_valid(obj):
    assert validate_cluster_create(obj) == []


@pytest.mark.parametrize(("less", "more"), [("view", "edit"), ("edit", "admin"), ("admin", "cluster-admin")])
def test_one_has_the_rights_of_the_other_and_more(less, more):
    assert find_uncovered(ROLES[more].rules, ROLES[less].rules) == []
    assert find_uncovered(ROLES[less].rules, ROLES[more].rules)


@pytest.mark.parametrize(
    ("name", "access", "granted"),
    [
        ("view", ("get", "", "pods"), True),
        ("view", ("get", "", "secrets"), False),
        ("view", ("create", "", "pods/exec"), False),
        ("view", ("list", "kueue.x-k8s.io", "workloads"), True),
        ("view", ("get", "visibility.kueue.x-k8s.io", "localqueues/pendingworkloads"), True),
        ("view", ("get", "visibility.kueue.x-k8s.io", "clusterqueues/pendingworkloads"), False),
        ("view", ("list", "scheduling.x-k8s.io", "podgroups"), True),
        ("view", ("create", "scheduling.x-k8s.io", "podgroups"), False),
        ("view", ("list", "jobset.x-k8s.io", "jobsets"), True),
        ("view", ("create", "jobset.x-k8s.io", "jobsets"), False),
        ("edit", ("create", "jobset.x-k8s.io", "jobsets"), True),
        ("edit", ("create", "resource.k8s.io", "resourceclaimtemplates"), True),
        ("edit", ("patch", "resource.k8s.io", "resourceclaims/status"), False),
        ("view", ("get", "resource.k8s.io", "resourceclaims"), True),
        ("view", ("create", "resource.k8s.io", "resourceclaims"), False),
        ("edit", ("create", "incubator.scheduling.k8s.io", "podgroups"), True),
        ("edit", ("get", "", "secrets"), True),
        ("edit", ("create", "batch", "jobs"), True),
        ("edit", ("create", "", "pods/exec"), True),
        ("edit", ("create", "rbac.authorization.k8s.io", "roles"), False),
        ("admin", ("create", "rbac.authorization.k8s.io", "rolebindings"), True),
        ("admin", ("create", "", "resourcequotas"), False),
        ("admin", ("delete", "", "namespaces"), False),
    ],
)
def test_what_they_grant(name, access, granted):
    assert any(allows(rule, Access(SOMEBODY, *access)) for rule in ROLES[name].rules) is granted


@pytest.mark.parametrize("name", ["view", "edit", "admin"])
def test_they_are_put_together_from_the_start(name):
    assert aggregate_rules(ROLES[name], CLUSTER_ROLES) == ROLES[name].rules


def _role(name, labels=None, rules=(), selectors=None):
    document = {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules)}
    if selectors is not None:
        document["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": each} for each in selectors]}
    return msgspec.convert(document, ClusterRole)


def _rule(resource):
    return {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("selectors", "found"),
    [
        ([{"to": "x"}], ["a", "b"]),
        ([{"to": "y"}], ["c"]),
        ([{"to": "y"}, {"to": "x"}], ["c", "a", "b"]),  # in the order of the selectors, then of names
        ([{"to": "z"}], []),
        ([{}], ["a", "b", "c"]),  # selects all but itself
    ],
)
def test_a_role_gets_the_rules_of_those_that_it_selects(selectors, found):
    others = [
        _role("2", {"to": "x"}, [_rule("b"), _rule("a")]),
        _role("1", {"to": "x"}, [_rule("a")]),
        _role("3", {"to": "y"}, [_rule("c")]),
    ]
    own = _role("0", {"to": "x"}, [_rule("own")], selectors)
    assert [rule.resources[0] for rule in aggregate_rules(own, [own, *others])] == found


def test_a_role_without_selectors_keeps_its_rules():
    own = _role("0", {}, [_rule("own")])
    assert aggregate_rules(own, [own, _role("1", {"to": "x"}, [_rule("a")])]) == own.rules
