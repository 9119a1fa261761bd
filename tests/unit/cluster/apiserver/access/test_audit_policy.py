"""What of which request the audit log keeps."""

import pytest

from muster.cluster.apiserver.access.audit_policy import PolicyError, find_scope, parse
from muster.cluster.apiserver.identity.users import Access, User

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
BOB = User("bob", frozenset({"devs"}))

POLICY = parse(
    HEAD
    + """
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, users: [system:robot]}
- {level: None, userGroups: [quiet]}
- {level: None, nonResourceURLs: [/healthz*, /version]}
- level: RequestResponse
  verbs: [create]
  resources: [{group: batch, resources: [jobs, "*/status"]}]
  omitStages: [ResponseStarted]
  omitManagedFields: false
- {level: Request, resources: [{group: "", resources: [configmaps], resourceNames: [known]}]}
- {level: Request, namespaces: [prod], resources: [{group: "", resources: [pods, pods/*]}]}
- {level: RequestResponse, namespaces: [vault], resources: [{group: "", resources: [secrets]}]}
- {level: RequestResponse, namespaces: [open]}
- {level: Request, resources: [{group: apps}]}
- {level: Metadata}
"""
)


@pytest.mark.parametrize(
    ("access", "level"),
    [
        (Access(User("system:robot"), "get", "", "pods"), "None"),
        (Access(User("x", frozenset({"quiet"})), "get", "", "pods"), "None"),
        (Access(BOB, "get", path="/healthz/ping"), "None"),
        (Access(BOB, "get", path="/version"), "None"),
        (Access(BOB, "get", path="/metrics"), "Metadata"),
        (Access(BOB, "create", "batch", "jobs", "n"), "RequestResponse"),
        (Access(BOB, "create", "batch", "jobs/status", "n"), "RequestResponse"),
        (Access(BOB, "get", "batch", "jobs", "n"), "Metadata"),
        (Access(BOB, "get", "", "configmaps", "n", "known"), "Request"),
        (Access(BOB, "get", "", "configmaps", "n", "other"), "Metadata"),
        (Access(BOB, "get", "", "pods/log", "prod", "p"), "Request"),
        (Access(BOB, "get", "", "pods/log", "test", "p"), "Metadata"),
        (Access(BOB, "get", "apps", "deployments", "n"), "Request"),
        # What is secret goes no further than metadata, unless a rule names it.
        (Access(BOB, "get", "", "secrets", "vault", "s"), "RequestResponse"),
        (Access(BOB, "get", "", "secrets", "open", "s"), "Metadata"),
        (Access(BOB, "create", "", "serviceaccounts/token", "open", "s"), "Metadata"),
        (Access(BOB, "get", "", "serviceaccounts", "open", "s"), "RequestResponse"),
    ],
)
def test_the_first_rule_that_matches_decides(access, level):
    assert find_scope(POLICY, access).level == level


def test_what_is_left_out():
    job = find_scope(POLICY, Access(BOB, "create", "batch", "jobs", "n"))
    assert (set(job.omit_stages), job.omit_managed_fields) == ({"RequestReceived", "ResponseStarted"}, False)
    pod = find_scope(POLICY, Access(BOB, "create", "", "pods", "n"))
    assert (set(pod.omit_stages), pod.omit_managed_fields) == ({"RequestReceived"}, True)


def test_what_no_rule_is_about_is_not_logged():
    assert (
        find_scope(parse(f"{HEAD}rules: [{{level: Metadata, verbs: [get]}}]"), Access(BOB, "list", "", "pods")).level
        == "None"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it must be of apiVersion audit.k8s.io/v1 and kind Policy"),
        ("[", "yaml"),
        (f"{HEAD}rules: [{{level: All}}]", "Invalid enum value 'All'"),
        (f"{HEAD}rules: [{{level: None, user: [a]}}]", "unknown field `user`"),
        (f"{HEAD}rules: [{{level: None, users: a}}]", "$.rules[0].users"),
        (f"{HEAD}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [b]}}]", "rules[0]: rules cannot apply"),
        (f"{HEAD}rules: []\nrules: []", "given twice"),
        ("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: []", "apiVersion"),
        ("a: " + "x" * (1 << 20), "has more than"),
    ],
)
def test_policies_that_make_no_sense(text, why):
    with pytest.raises(PolicyError) as error:
        parse(text)
    assert why in str(error.value)
