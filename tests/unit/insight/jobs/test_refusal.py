"""A refusal says which right is missing, or which kind, and who can help."""

import pytest

from muster.insight.jobs.refusal import explain_missing_kind, explain_missing_right, explain_silent_webhook

WHO = 'User "system:serviceaccount:team:bob" cannot'
YOU = "you (system:serviceaccount:team:bob) may not"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f'jobs.batch is forbidden: {WHO} list resource "jobs" in API group "batch" in the namespace "team"',
            f"{YOU} list jobs.batch in namespace team; ask the administrator of the namespace for that right",
        ),
        (
            f'nodes is forbidden: {WHO} list resource "nodes" in API group "" at the cluster scope',
            f"{YOU} list nodes in the whole cluster; ask the administrator of the cluster for that right",
        ),
        (
            f'jobs.batch "j" is forbidden: {WHO} patch resource "jobs" in API group "batch" in the namespace "team"',
            f'{YOU} patch jobs.batch "j" in namespace team; ask the administrator of the namespace for that right',
        ),
        (
            f'pods "p" is forbidden: {WHO} create resource "pods/exec" in API group "" in the namespace "team"',
            f"{YOU} create pods/exec in namespace team; ask the administrator of the namespace for that right",
        ),
        (
            f'jobs.batch is forbidden: {WHO} list resource "jobs" in API group "batch" in the namespace "team": more',
            f"{YOU} list jobs.batch in namespace team; ask the administrator of the namespace for that right",
        ),
        (
            f'forbidden: {WHO} get path "/metrics"',
            f"{YOU} get /metrics; ask the administrator of the cluster for that right",
        ),
        ('pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1', ""),
        ('admission webhook "vjob.kb.io" denied the request: User "bob" cannot resource "x"', ""),
        ("", ""),
    ],
)
def test_a_missing_right(message: str, expected: str) -> None:
    assert explain_missing_right(message) == expected


@pytest.mark.parametrize(
    ("group", "project"),
    [("kueue.x-k8s.io", "Kueue"), ("jobset.x-k8s.io", "JobSet"), ("example.com", "example.com")],
)
def test_a_kind_that_is_not_installed(group: str, project: str) -> None:
    assert explain_missing_kind(group, "v1", "things") == (
        f"this cluster has no things of {group}/v1: {project} is not installed there, or in another version; "
        "ask the administrator of the cluster"
    )


SERVICE = "https://kueue-webhook-service.kueue-system.svc:443/mutate?timeout=10s"
CALLING = 'Internal error occurred: failed calling webhook "mjob.kb.io": '
DIAL = "dial tcp 127.0.0.1:9443: connect: connection refused"
LOOK = "look for its pods with kubectl get pods -n kueue-system, or ask the administrator of the cluster"
WHOSE = "Service kueue-webhook-service of namespace kueue-system, which the server asks first (webhook mjob.kb.io)"
AT_URL = "https://localhost:9443/mutate, which the server asks first (webhook mjob.kb.io)"
NOWHERE = "its program, which the server asks first (webhook mjob.kb.io)"
START = "start it, or ask the administrator of the cluster"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f'{CALLING}failed to call webhook: Post "{SERVICE}": {DIAL}',
            f"nothing was stored: {WHOSE}, does not answer: {DIAL}; {LOOK}",
        ),
        (
            f'{CALLING}failed to call webhook: Post "{SERVICE}": no endpoints available for service "s"',
            f'nothing was stored: {WHOSE}, does not answer: no endpoints available for service "s"; {LOOK}',
        ),
        (
            f'{CALLING}failed to call webhook: Post "https://localhost:9443/mutate?timeout=10s": {DIAL}',
            f"nothing was stored: {AT_URL}, does not answer: {DIAL}; {START}",
        ),
        (
            f"{CALLING}expected response.uid",
            f"nothing was stored: {NOWHERE}, does not answer: expected response.uid; {START}",
        ),
        ('admission webhook "mjob.kb.io" denied the request: no', ""),
        ("", ""),
    ],
)
def test_a_webhook_that_does_not_answer(message: str, expected: str) -> None:
    assert explain_silent_webhook(message) == expected
