"""kubectl as somebody with fewer rights: auth, tokens, `--as`; and a pod that calls the API with its own token."""

import sys

import pytest
import yaml

CALLER = """
import sys
from kubernetes import client, config
config.load_incluster_config()
core = client.CoreV1Api()
namespace = sys.argv[1]
print("sees", [pod.metadata.name for pod in core.list_namespaced_pod(namespace).items])
try:
    core.list_namespaced_secret(namespace)
except client.ApiException as error:
    print("refused", error.status)
review = client.AuthenticationV1Api().create_self_subject_review({})
print("is", review.status.user_info.username)
"""


@pytest.fixture
def reader(kubectl):
    """An account that reads pods, and nothing else."""
    kubectl("create", "serviceaccount", "reader")
    kubectl("create", "role", "reads", "--verb=get,list,watch", "--resource=pods")
    kubectl("create", "rolebinding", "reads", "--role=reads", f"--serviceaccount={kubectl.namespace}:reader")
    return f"system:serviceaccount:{kubectl.namespace}:reader"


def test_what_somebody_may(kubectl, reader):
    assert kubectl("auth", "can-i", "list", "pods", "--as", reader) == "yes\n"
    assert "no" in kubectl.run("auth", "can-i", "delete", "pods", "--as", reader).stdout
    listed = kubectl("auth", "can-i", "--list", "--as", reader)
    assert any(line.split() == ["pods", "[]", "[]", "[get", "list", "watch]"] for line in listed.splitlines())
    assert reader in kubectl("auth", "whoami", "--as", reader)
    assert "kubernetes-admin" in kubectl("auth", "whoami")


def test_a_token_in_a_kubeconfig(kubectl, reader):
    token = kubectl("create", "token", "reader", "--duration=10m").strip()
    file = kubectl.home / "of-reader"
    config = yaml.safe_load((kubectl.home / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token}
    file.write_text(yaml.safe_dump(config))
    as_reader = f"--kubeconfig={file}"
    assert "No resources found" in kubectl.run("get", "pods", as_reader).stderr
    assert kubectl.refused("get", "secrets", as_reader) == (
        f'Error from server (Forbidden): secrets is forbidden: User "{reader}" cannot list resource "secrets" '
        f'in API group "" in the namespace "{kubectl.namespace}"\n'
    )
    config["users"][0]["user"] = {"token": token[:-4]}
    file.write_text(yaml.safe_dump(config))
    assert "You must be logged in to the server" in kubectl.refused("get", "pods", as_reader)


def test_nobody_gives_more_than_he_has(kubectl):
    kubectl("create", "rolebinding", "carol", "--clusterrole=admin", "--user=carol")
    kubectl("create", "role", "small", "--verb=get", "--resource=secrets", "--as=carol")
    said = kubectl.refused("create", "role", "big", "--verb=get,list", "--resource=nodes", "--as=carol")
    assert "is attempting to grant RBAC permissions not currently held" in said
    assert '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}' in said
    said = kubectl.refused("create", "rolebinding", "x", "--clusterrole=cluster-admin", "--user=carol", "--as=carol")
    assert "not currently held" in said


def test_roles_are_reconciled_and_shown(kubectl, reader):
    assert "reads   Role/reads" in kubectl("get", "rolebindings")
    here, dry = ("-n", kubectl.namespace), ("--dry-run=client", "-o", "yaml")
    manifest = kubectl("create", "role", "reads", "--verb=delete", "--resource=pods", *here, *dry)
    kubectl("auth", "reconcile", "-f", "-", input=manifest)
    assert kubectl("auth", "can-i", "delete", "pods", "--as", reader) == "yes\n"
    assert kubectl("explain", "clusterrole.aggregationRule")


def test_a_pod_calls_with_its_own_token(kubectl, reader, tmp_path):
    script = tmp_path / "caller.py"
    script.write_text(CALLER)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "caller"},
        "spec": {
            "serviceAccountName": "reader",
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "none", "command": [sys.executable, str(script), kubectl.namespace]}],
        },
    }
    kubectl("apply", "-f", "-", input=yaml.safe_dump(pod))
    kubectl.eventually("get", "pod", "caller", shows="Completed")
    assert kubectl("logs", "caller").splitlines() == ["sees ['caller']", "refused 403", f"is {reader}"]
    assert kubectl.run("diff", "-f", "-", input=yaml.safe_dump(pod)).stdout == ""
