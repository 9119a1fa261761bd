"""Decide which pods of a Job with a queue may run on the granted quota.

The other pods are created with a scheduling gate. These are the pods of elastic Jobs beyond the grant, and all pods of
a Job that another program resumed before Kueue admitted it. Of an Indexed Job the lowest indexes run. Pods without an
index are interchangeable: they wait while the Job wants more pods than granted, and their gates are removed one by one.
"""

from collections.abc import Iterable
from typing import Any

from muster.api.core import Pod
from muster.api.kueue.names import ELASTIC_JOB
from muster.api.pods import is_active
from muster.jobs.job.census import NO_INDEX, completion_index
from muster.jobs.job.sizing import wanted_active
from muster.jobs.job.terms import JobTerms

GATE = ELASTIC_JOB


def is_gated(pod: Pod) -> bool:
    """Return whether a pod waits for quota."""
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def add_gate(spec: dict[str, Any]) -> None:
    """Add the scheduling gate to the spec of a new pod, unless the spec has it.

    The template of an elastic Job that Kueue admitted has the gate already.
    """
    gates = spec.setdefault("schedulingGates", [])
    if {"name": GATE} not in gates:
        gates.append({"name": GATE})


def must_wait(pod: Pod, terms: JobTerms, granted: int) -> bool:
    """Return whether a new pod of a Job is created with a scheduling gate, because it exceeds the granted quota.

    granted: how many pods of the Job have quota.
    """
    if terms.indexed:
        return not 0 <= completion_index(pod) < granted
    return granted < wanted_active(terms, active=0, succeeded=0)


def may_go(pods: Iterable[Pod], terms: JobTerms, granted: int) -> list[Pod]:
    """Return the gated pods of a Job, oldest first, whose gate is to be removed because they have quota now.

    granted: how many pods of the Job have quota.
    """
    pods = [pod for pod in pods if is_active(pod)]
    waiting = [pod for pod in pods if is_gated(pod)]
    if terms.indexed:
        return [pod for pod in waiting if NO_INDEX < completion_index(pod) < granted]
    return waiting[: max(0, granted - (len(pods) - len(waiting)))]
