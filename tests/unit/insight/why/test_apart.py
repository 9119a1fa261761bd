"""The jobs that a waiting job shares no node with."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.insight.why.apart import find_jobs_apart

JOB = "batch.kubernetes.io/job-name"
HOST = "kubernetes.io/hostname"


def pod(job: str, node: str = "n", alone: bool = False, **about: Any) -> Pod:
    """alone: whether the job asks for its nodes alone, as by --exclusive."""
    others = [{"key": JOB, "operator": "Exists"}, {"key": JOB, "operator": "NotIn", "values": [job]}]
    term = {"labelSelector": {"matchExpressions": others}, "topologyKey": HOST, "namespaceSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [about.get("term", term)]}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}
    meta = {"name": f"{job}-0", "namespace": about.get("namespace", "ns"), "labels": {JOB: job}}
    return msgspec.convert(
        {
            "metadata": meta | {"ownerReferences": [owner]},
            "spec": {"nodeName": node, "affinity": rules if alone else None},
            "status": {"phase": about.get("phase", "Running")},
        },
        Pod,
        strict=False,
    )


OUT_OF_ORDER = {"labelSelector": {"matchExpressions": [{"key": JOB, "operator": "Odd"}]}, "topologyKey": HOST}


@pytest.mark.parametrize(
    ("waiting", "others", "names"),
    [
        (pod("me", ""), [pod("alone", alone=True), pod("plain")], ("alone",)),
        (pod("me", "", alone=True), [pod("b"), pod("a"), pod("b")], ("a", "b")),
        (pod("me", ""), [pod("alone", alone=True, namespace="lab")], ("lab/alone",)),
        (pod("me", "", alone=True), [pod("me", alone=True)], ()),
        (pod("me", ""), [pod("waits", "", alone=True), pod("ended", alone=True, phase="Succeeded")], ()),
        (pod("me", ""), [pod("odd", alone=True, term=OUT_OF_ORDER)], ()),
    ],
)
def test_jobs_that_share_no_node_with_it(waiting: Pod, others: list[Pod], names: tuple[str, ...]) -> None:
    assert find_jobs_apart(waiting, others) == names
