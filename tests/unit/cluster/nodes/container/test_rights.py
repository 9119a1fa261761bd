"""What a pod may ask for of rights: each field that there is is done by a node, or said not to be."""

import os
from typing import Any

import msgspec
import pytest

from muster.api.core import Pod, PodSecurityContext, PodSpec, SecurityContext
from muster.cluster.nodes.container.rights import explain_unenforced
from muster.cluster.nodes.machine.isolation import Isolation

ALONE = Isolation("namespaces", own_pids=True)
DONE = ""

# By field: what a pod may say, and which part of that is said not to be done.
OF_POD: dict[str, list[tuple[Any, str]]] = {
    "seLinuxOptions": [({"level": "s0"}, "seLinuxOptions")],
    "windowsOptions": [({"runAsUserName": "x"}, "windowsOptions")],
    "runAsUser": [(1, DONE)],
    "runAsGroup": [(1, DONE)],
    "runAsNonRoot": [(True, DONE)],
    "supplementalGroups": [([1], DONE)],
    "supplementalGroupsPolicy": [("Merge", "supplementalGroupsPolicy Merge"), ("Strict", DONE)],
    "fsGroup": [(1, DONE)],
    "sysctls": [([{"name": "kernel.shm_rmid_forced", "value": "0"}], "sysctls")],
    "fsGroupChangePolicy": [("OnRootMismatch", DONE), ("Always", DONE)],
    "seccompProfile": [({"type": "RuntimeDefault"}, "seccompProfile RuntimeDefault"), ({"type": "Unconfined"}, DONE)],
    "appArmorProfile": [({"type": "RuntimeDefault"}, "appArmorProfile RuntimeDefault"), ({"type": "Unconfined"}, DONE)],
    "seLinuxChangePolicy": [("Recursive", DONE)],  # there is no label to change to
}
OF_CONTAINER: dict[str, list[tuple[Any, str]]] = {
    "capabilities": [({"add": ["SYS_TIME"], "drop": ["ALL"]}, DONE)],
    "privileged": [(True, DONE), (False, DONE)],
    "seLinuxOptions": OF_POD["seLinuxOptions"],
    "windowsOptions": OF_POD["windowsOptions"],
    "runAsUser": [(1, DONE)],
    "runAsGroup": [(1, DONE)],
    "runAsNonRoot": [(True, DONE)],
    "readOnlyRootFilesystem": [(True, DONE)],
    "allowPrivilegeEscalation": [(False, DONE), (True, DONE)],
    "procMount": [("Default", "procMount Default"), ("Unmasked", DONE)],
    "seccompProfile": OF_POD["seccompProfile"],
    "appArmorProfile": OF_POD["appArmorProfile"],
}
OF_SPEC: dict[str, list[tuple[Any, str]]] = {
    "hostNetwork": [(True, DONE)],
    "hostPID": [(True, "hostPID")],
    "hostIPC": [(True, DONE)],
    "shareProcessNamespace": [(True, "shareProcessNamespace"), (False, DONE)],
    "hostUsers": [(False, "hostUsers: false"), (True, DONE)],
}
# The contexts themselves, and what is no matter of rights.
OTHERS = {
    "securityContext", "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy",
    "terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName",
    "serviceAccount", "automountServiceAccountToken", "nodeName", "imagePullSecrets", "hostname", "subdomain",
    "affinity", "schedulerName", "tolerations", "hostAliases", "priorityClassName", "priority", "dnsConfig",
    "readinessGates", "runtimeClassName", "enableServiceLinks", "preemptionPolicy", "overhead",
    "topologySpreadConstraints", "setHostnameAsFQDN", "os", "schedulingGates", "resourceClaims", "resources",
    "hostnameOverride", "schedulingGroup",
}  # fmt: skip


def names(struct: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_no_field_is_forgotten():
    assert names(PodSecurityContext) == set(OF_POD)
    assert names(SecurityContext) == set(OF_CONTAINER)
    assert names(PodSpec) == set(OF_SPEC) | OTHERS
    assert not set(OF_SPEC) & OTHERS


def cases(table: dict[str, list[tuple[Any, str]]]) -> list[Any]:
    return [pytest.param({field: value}, said, id=field) for field, some in table.items() for value, said in some]


def told(spec: Any, context: Any = None, isolation: Isolation = ALONE) -> str:
    container = {"name": "c", "securityContext": context}
    pod = msgspec.convert({"spec": {"containers": [container], **spec}}, Pod)
    return explain_unenforced(pod, isolation)


def sentence(*said: str) -> str:
    found = ", ".join(filter(None, said))
    return f"This node does not do what the security context asks: {found}." if found else ""


@pytest.fixture
def root(monkeypatch):
    """The node runs as root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("spec", "said"), cases(OF_SPEC))
def test_what_a_pod_says(spec, said):
    assert told(spec) == sentence(said)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("context", "said"), cases(OF_POD))
def test_what_the_context_of_a_pod_says(context, said):
    assert told({"securityContext": context}) == sentence(said)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("context", "said"), cases(OF_CONTAINER))
def test_what_the_context_of_a_container_says(context, said):
    assert told({}, context) == sentence(said and f"{said} (container c)")


@pytest.mark.parametrize(
    ("isolation", "said"),
    [
        (Isolation("user-namespaces", own_pids=True), ("hostPID", "shareProcessNamespace")),
        (Isolation("bubblewrap", own_pids=True), ("hostPID", "shareProcessNamespace")),
        (Isolation("namespaces"), ("hostUsers: false",)),
        (Isolation("none"), ("hostUsers: false",)),
    ],
    ids=lambda value: value.kind if isinstance(value, Isolation) else "",
)
def test_what_a_machine_gives_anyway(isolation, said):
    asked = {"hostPID": True, "shareProcessNamespace": True, "hostUsers": False}
    assert told(asked, isolation=isolation) == sentence(*said)


def test_who_is_not_root_cannot_give_rights(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(os, "getegid", lambda: 1)
    monkeypatch.setattr(os, "getgroups", list)
    assert told(
        {"securityContext": {"fsGroup": 2}}, {"privileged": True, "capabilities": {"add": ["SYS_TIME"]}}
    ) == sentence(
        "fsGroup and supplementalGroups, as the node does not run as root",
        "privileged, as the node does not run as root (container c)",
        "added capabilities, as the node does not run as root (container c)",
    )
