"""What holds of a cluster on every day, read from the server alone.

At every moment: no ClusterQueue holds more than its quota, no pod is on a node whose Job holds none, and no gang stands
half on its nodes for longer than a new leader needs to finish it. In the end: every Job has ended, and nothing is left.
"""

import ssl
import time
import urllib.error
import urllib.request
from collections import defaultdict
from typing import TypeVar

from tests.kubeplane import KubePlane
from tests.system.queueing.quota_audit import Books, reserved, squatters

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, COHORT, WORKLOAD, Workload

T = TypeVar("T")

# The time of a lease, the start of a process, and what a machine with other work to do takes for them.
FINISHING_SECONDS = 30.0


class Auditor:
    """Reads with a connection of its own."""

    def __init__(self, plane: KubePlane) -> None:
        self._plane = plane
        self._half_since: dict[str, float] = {}  # by gang
        self._context = ssl.create_default_context(cafile=str(plane.home / "tls.crt"))

    def everything(self, kind: Kind[T]) -> list[T]:
        """All of a kind. Raises `OSError` if the server does not answer."""
        headers = {"Authorization": f"Bearer {self._plane.token}"}
        asked = urllib.request.Request(self._plane.url + kind.path(), headers=headers)
        while True:
            try:
                with urllib.request.urlopen(asked, context=self._context, timeout=10) as answer:
                    return list(kind.decode_page(answer.read()).items)
            except urllib.error.HTTPError as error:
                if error.code != 429:
                    raise
                time.sleep(1)  # it is busy, as with a kind that has just been defined

    def broken(self) -> list[str]:
        """What is wrong at this moment; empty if all is well. Raises as `everything`."""
        before = self.everything(POD)
        workloads = self.everything(WORKLOAD)
        after = self.everything(POD)
        excess = Books(self.everything(CLUSTER_QUEUE), self.everything(COHORT)).excess(reserved(workloads))
        found = [f"{cell} holds {over} more than it has" for cell, over in excess.items()]
        found += [f"{one.metadata.name} is admitted without quota" for one in workloads if _admitted_without_quota(one)]
        # On its node before and after the look at who holds quota: so it was there at that moment.
        there = set(squatters(before, workloads)) & set(squatters(after, workloads))
        found += [f"{name} is on a node, and its Job holds no quota" for name in sorted(there)]
        return found + [f"the gang of {name} stands half on its nodes" for name in self._half(after)]

    def _half(self, pods: list[Pod]) -> list[str]:
        """The gangs that have stood so for too long."""
        now = time.monotonic()
        self._half_since = {name: self._half_since.get(name, now) for name in half_started(pods)}
        return [name for name, since in self._half_since.items() if now - since > FINISHING_SECONDS]

    def unfinished(self) -> list[str]:
        """What has not come to its end, or is left over."""
        jobs, pods, workloads = self.everything(JOB), self.everything(POD), self.everything(WORKLOAD)
        found = [f"job {one.metadata.name} has not ended" for one in jobs if not _has_ended(one)]
        owners = {one.metadata.uid for one in jobs}
        for one in workloads:
            if not {owner.uid for owner in one.metadata.owner_references} & owners:
                found.append(f"workload {one.metadata.name} is left over")
            if not is_true(one.status.conditions, "Finished"):
                found.append(f"workload {one.metadata.name} is not finished")
            elif one.metadata.finalizers:
                found.append(f"workload {one.metadata.name} is finished and still held")
        return found + [f"pod {one.metadata.name} is left over" for one in pods if not _is_over(one)]


def half_started(pods: list[Pod]) -> list[str]:
    """The Jobs of which some pods have a node, or had one until they succeeded, and others wait for one."""
    gangs: dict[str, set[bool]] = defaultdict(set)
    for pod in pods:
        if pod.status.phase != "Failed":
            gangs[pod.metadata.labels.get("batch.kubernetes.io/job-name", "")].add(bool(pod.spec.node_name))
    return sorted(name for name, placed in gangs.items() if len(placed) == 2)


def _admitted_without_quota(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return is_true(conditions, "Admitted") and not is_true(conditions, "QuotaReserved")


def _has_ended(job: Job) -> bool:
    return is_true(job.status.conditions, "Complete") or is_true(job.status.conditions, "Failed")


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")
