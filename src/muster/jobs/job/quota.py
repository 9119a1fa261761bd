"""Jobs that need quota: which of their pods may run with as many as were granted.

The others carry a scheduling gate from their creation on: those of elastic Jobs beyond what was granted, and all pods
of a Job that another program resumed before it was admitted. Of an Indexed Job the lowest indexes run. Pods without an
index are all alike: they wait as long as the Job wants more than was granted, and are let go one by one.
"""

from collections.abc import Iterable

from muster.api.core import Pod
from muster.api.kueue.names import ELASTIC_JOB
from muster.api.pods import is_active
from muster.jobs.job.census import NO_INDEX, completion_index
from muster.jobs.job.sizing import wanted_active
from muster.jobs.job.terms import Terms

GATE = ELASTIC_JOB


def is_gated(pod: Pod) -> bool:
    """Whether it waits for quota."""
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def must_wait(pod: Pod, terms: Terms, granted: int) -> bool:
    """Whether a new pod of a Job has to wait."""
    if terms.indexed:
        return not 0 <= completion_index(pod) < granted
    return granted < wanted_active(terms, active=0, succeeded=0)


def may_go(pods: Iterable[Pod], terms: Terms, granted: int) -> list[Pod]:
    """Which of a Job's pods need not wait any longer; they are given the oldest first."""
    pods = [pod for pod in pods if is_active(pod)]
    waiting = [pod for pod in pods if is_gated(pod)]
    if terms.indexed:
        return [pod for pod in waiting if NO_INDEX < completion_index(pod) < granted]
    return waiting[: max(0, granted - (len(pods) - len(waiting)))]
