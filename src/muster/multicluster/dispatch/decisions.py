"""Describe MultiKueue's decisions about a workload as records: which clusters get a clone, and which runs it."""

from collections.abc import Iterator
from datetime import datetime

from muster.api.ours.decisions import Decision, Subject
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView

# The rule by which a workload leaves its cluster because that cluster is lost.
LOST = "ClusterLost"


def describe_dispatch(view: DispatchView, plan: DispatchPlan, subject: Subject, now: datetime) -> Iterator[Decision]:
    """Yield the records of a plan's decisions: the recall of a workload, its dispatch, or its nomination."""
    admission = view.workload.status.admission
    queue = admission.cluster_queue if admission is not None else ""
    if plan.home != view.home:
        if view.home:
            lost = any(remote.cluster == view.home and remote.lost_since is not None for remote in view.remotes)
            rule = LOST if lost else ""
            yield Decision(now, "Recalled", subject.job, subject.uid, queue, rule, clusters=(view.home,))
        if plan.home:
            yield Decision(now, "Dispatched", subject.job, subject.uid, queue, clusters=(plan.home,))
    elif plan.create:
        clusters = tuple(sorted(plan.create))
        yield Decision(now, "Nominated", subject.job, subject.uid, queue, ",".join(clusters), clusters=clusters)
