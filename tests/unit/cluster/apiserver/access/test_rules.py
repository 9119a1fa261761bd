"""What rules grant, and whether some grant all that others do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.server.rbac import PolicyRule
from muster.cluster.apiserver.access.rules import (
    EVERYTHING,
    TooManyRightsError,
    allows,
    compact_rights,
    find_uncovered,
    render_rule,
)
from muster.cluster.apiserver.identity.users import Access, User

BOB = User("bob")


def rule(verbs, groups=("",), resources=(), names=(), urls=()):
    document = {
        "verbs": verbs,
        "apiGroups": groups if resources else (),
        "resources": resources,
        "resourceNames": names,
        "nonResourceURLs": urls,
    }
    return msgspec.convert(document, PolicyRule)


READ = rule(["get", "list"], resources=["pods"])


@pytest.mark.parametrize(
    ("given_rule", "access", "granted"),
    [
        (READ, ("get", "", "pods"), True),
        (READ, ("delete", "", "pods"), False),
        (READ, ("get", "batch", "pods"), False),
        (READ, ("get", "", "secrets"), False),
        (READ, ("get", "", "pods/log"), False),
        (rule(["*"], ["*"], ["*"]), ("any", "x.io", "things/sub"), True),
        (rule(["get"], resources=["pods/log"]), ("get", "", "pods/log"), True),
        (rule(["get"], resources=["pods/log"]), ("get", "", "pods"), False),
        (rule(["get"], ["*"], ["*/scale"]), ("get", "apps", "deployments/scale"), True),
        (rule(["get"], ["*"], ["*/scale"]), ("get", "apps", "deployments/status"), False),
        (rule(["get"], ["*"], ["*/scale"]), ("get", "apps", "scale"), False),
        (rule(["get"], resources=["pods"], names=["a"]), ("get", "", "pods", "n", "a"), True),
        (rule(["get"], resources=["pods"], names=["a"]), ("get", "", "pods", "n", "b"), False),
        (rule(["get"], resources=["pods"], names=["a"]), ("get", "", "pods", "n", ""), False),
        (rule(["get"], urls=["/metrics"]), ("get", "", "", "", "", "/metrics"), True),
        (rule(["get"], urls=["/metrics"]), ("get", "", "", "", "", "/metrics/x"), False),
        (rule(["get"], urls=["/apis/*"]), ("get", "", "", "", "", "/apis/x/v1"), True),
        (rule(["get"], urls=["/apis/*"]), ("get", "", "", "", "", "/apis"), False),
        (rule(["get"], urls=["*"]), ("get", "", "", "", "", "/"), True),
        (rule(["get"], urls=["*"]), ("get", "", "pods"), False),
        (rule(["*"], ["*"], ["*"]), ("get", "", "", "", "", "/"), False),
    ],
)
def test_what_a_rule_grants(given_rule, access, granted):
    assert allows(given_rule, Access(BOB, *access)) is granted


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ([READ], [rule(["get"], resources=["pods"])], []),
        ([READ], [READ], []),
        ([], [READ], ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}']),
        (
            [READ],
            [rule(["get", "watch"], resources=["pods"])],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}'],
        ),
        # Two rules together cover what neither does alone.
        ([READ, rule(["get", "list"], resources=["nodes"])], [rule(["list"], resources=["nodes", "pods"])], []),
        ([READ], [rule(["*"], resources=["pods"])], ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
        ([rule(["*"], ["*"], ["*"])], [rule(["x"], ["g"], ["r/s"], ["n"])], []),
        ([READ], [rule(["get"], resources=["pods"], names=["a"])], []),
        (
            [rule(["get"], resources=["pods"], names=["a"])],
            [rule(["get"], resources=["pods"], names=["a", "b"])],
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        (
            [rule(["get"], resources=["pods"], names=["a"])],
            [rule(["get"], resources=["pods"])],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        ([rule(["get"], ["apps"], ["*/scale"])], [rule(["get"], ["apps"], ["deployments/scale"])], []),
        ([rule(["get"], urls=["/a/*"])], [rule(["get"], urls=["/a/b", "/a/c*"])], []),
        (
            [rule(["get"], urls=["/a/*"])],
            [rule(["get"], urls=["/a/b", "/b"])],
            ['{NonResourceURLs:["/b"], Verbs:["get"]}'],
        ),
        (
            [READ],
            EVERYTHING,
            ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}', '{NonResourceURLs:["*"], Verbs:["*"]}'],
        ),
    ],
)
def test_what_others_grant_besides(owned, wanted, missing):
    assert [render_rule(right) for right in compact_rights(find_uncovered(owned, wanted))] == missing


def test_a_rule_of_endless_rights_is_not_taken_apart():
    many = [str(number) for number in range(1000)]
    assert find_uncovered(EVERYTHING, [rule(many, many, many)]) == []
    with pytest.raises(TooManyRightsError):
        find_uncovered([READ], [rule(many, many, many)])


@pytest.mark.parametrize(
    ("owned", "wanted"),
    [
        ([READ] * 10, [rule(["get"] * 10, ["a"] * 10, ["b"] * 10)] * 1000),
        ([rule(["get"], [""], ["pods"], names=[str(n) for n in range(50_000)])], [rule(["get"], [""], ["pods"])] * 50),
        ([READ] * 10_000, [READ] * 10_000),
    ],
)
def test_many_rules_are_not_compared_for_long(owned, wanted):
    with pytest.raises(TooManyRightsError):
        find_uncovered(owned, wanted)


def _some(*words):
    return st.lists(st.sampled_from(words), min_size=1, max_size=2, unique=True)


RULES = st.builds(
    rule,
    _some("get", "list", "*"),
    _some("", "apps", "*"),
    _some("pods", "pods/log", "nodes", "*", "*/log"),
    st.lists(st.sampled_from(("a", "b")), max_size=2, unique=True),
)
ACCESSES = st.builds(
    lambda verb, group, resource, name: Access(BOB, verb, group, resource, "", name),
    st.sampled_from(("get", "list", "delete")),
    st.sampled_from(("", "apps", "batch")),
    st.sampled_from(("pods", "pods/log", "nodes", "nodes/log", "secrets")),
    st.sampled_from(("", "a", "b", "c")),
)


@given(st.lists(RULES, max_size=4), st.lists(RULES, max_size=3), ACCESSES)
def test_who_owns_all_rights_may_do_all_that_they_grant(owned, wanted, access):
    missing = find_uncovered(owned, wanted)
    if any(allows(each, access) for each in wanted):
        assert any(allows(each, access) for each in [*owned, *missing])
    assert find_uncovered([*owned, *missing], wanted) == []
    assert find_uncovered(owned, compact_rights(missing)) != [] or not missing
