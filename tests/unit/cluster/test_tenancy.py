"""As whom a node of a system server runs a pod, and what it refuses."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Namespace, Pod
from muster.cluster.tenancy import TenancyError, find_tenant, is_plain, require_tenable
from muster.runtime.process.accounts import Account, AccountError

ADA = Account("ada", 1000, 1000, (1000, 27), "/home/ada", "/bin/sh")


def find(uid: int) -> Account:
    if uid != ADA.uid:
        raise AccountError(f"this machine has no user with the id {uid}")
    return ADA


def namespace(**marks: str) -> Namespace:
    annotations = {f"muster.dev/unix-{name}": text for name, text in marks.items()}
    return msgspec.convert({"metadata": {"name": "n", "annotations": annotations}}, Namespace)


def pod(*, volumes: Any = (), pod_context: Any = None, context: Any = None) -> Pod:
    spec = {"containers": [{"name": "c", "securityContext": context}], "volumes": volumes}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {**spec, "securityContext": pod_context}}, Pod)


def test_a_namespace_says_whose_pods_it_has() -> None:
    assert find_tenant(namespace(user="ada", uid="1000"), "n", find) == ADA


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "belongs to no Unix user"),
        (namespace(), "belongs to no Unix user"),
        (namespace(uid="1000"), "belongs to no Unix user"),
        (namespace(user="ada"), "belongs to no Unix user"),
        (namespace(user="ada", uid="-1"), "belongs to no Unix user"),
        (namespace(user="ada", uid="١"), "belongs to no Unix user"),
        (namespace(user="root", uid="0"), "as whom this server runs nothing"),
        (namespace(user="ada", uid="00"), "as whom this server runs nothing"),
        (namespace(user="bob", uid="1000"), "belongs to user bob, but the id 1000 is that of ada now"),
        (namespace(user="gone", uid="1001"), "user gone: this machine has no user with the id 1001"),
    ],
)
def test_a_namespace_of_nobody_runs_nothing(given: Namespace | None, why: str) -> None:
    with pytest.raises(TenancyError, match="namespace n belongs") as error:
        find_tenant(given, "n", find)
    assert why in str(error.value)


@pytest.mark.parametrize("of_nobody", [namespace(), namespace(user="root", uid="0")])
def test_root_learns_where_its_jobs_may_run(of_nobody: Namespace) -> None:
    with pytest.raises(TenancyError, match="or in the namespace of one, such as -n user-ada"):
        find_tenant(of_nobody, "n", find)


@pytest.mark.parametrize(
    "fine",
    [
        pod(),
        pod(pod_context={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 27, "supplementalGroups": [27]}),
        pod(context={"runAsUser": 1000, "capabilities": {"add": ["SYS_ADMIN"]}}),  # which it does not get
        pod(volumes=[{"name": "e", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s"}}]),
        pod(volumes=[{"name": "p", "projected": {"sources": []}}, {"name": "c", "configMap": {"name": "c"}}]),
    ],
)
def test_a_pod_may_name_what_is_its_users(fine: Pod) -> None:
    require_tenable(fine.spec, ADA)


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (pod(volumes=[{"name": "h", "hostPath": {"path": "/"}}]), "hostPath volumes are refused"),
        (pod(volumes=[{"name": "h", "emptyDir": {}, "hostPath": {"path": "/"}}]), "hostPath volumes are refused"),
        (pod(volumes=[{"name": "n", "nfs": {"server": "s", "path": "/"}}]), "nfs volumes are refused"),
        (pod(pod_context={"runAsUser": 0}), "runAsUser 0 is another user"),
        (pod(context={"runAsUser": 1001}), "runAsUser 1001 is another user"),
        (pod(context={"runAsGroup": 0}), "runAsGroup 0 is not the user's primary group"),
        (pod(pod_context={"fsGroup": 0}), "group 0 is not a group of the user"),
        (pod(pod_context={"supplementalGroups": [27, 4]}), "group 4 is not a group of the user"),
        (pod(context={"privileged": True}), "privileged containers are refused"),
    ],
)
def test_a_pod_may_not_name_what_is_anothers(refused: Pod, why: str) -> None:
    with pytest.raises(TenancyError) as error:
        require_tenable(refused.spec, ADA)
    assert why in str(error.value)
    assert "pods of this namespace run as user ada" in str(error.value)
    assert not is_plain(refused.spec)


def test_a_plain_pod_asks_for_nothing_special() -> None:
    assert is_plain(pod(volumes=[{"name": "e", "emptyDir": {}}], pod_context={}, context={}).spec)
    assert not is_plain(pod(context={"runAsUser": 1000}).spec)
    assert not is_plain(pod(pod_context={"fsGroup": 1000}).spec)
