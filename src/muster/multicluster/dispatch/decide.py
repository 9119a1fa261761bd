"""The state machine of one workload that runs in another cluster (Kueue KEP-693). Pure.

Clones of the workload compete for quota in several clusters; clones have no pods. The first cluster that admits its
clone becomes the workload's *home*, which is first stored with the workload. Then the other clones are deleted. The job
is created at home, after no other reachable cluster has a job of the workload that may run.

So a job is in at most one cluster. It is created only at home. A home is given up only when none of the workload's
objects remain there, or when the cluster has been lost for longer than the settings allow. A finished job stays where
it ran, with its output, as long as the workload exists, because it cannot run again.

The order of the rules is upstream's (`reconcileGroup`), with two differences: the home is stored separately and
survives an eviction, and jobs in other clusters are deleted before the job is created.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from muster.api.conditions import find_true, is_true
from muster.api.kueue import CHECK_PENDING, CHECK_READY, CHECK_REJECTED, CHECK_RETRY, Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    OUT_OF_SYNC,
    QUOTA_RESERVED,
)
from muster.api.managed.dispatch import describe_barred, find_barred, refusal_of
from muster.api.meta import Condition
from muster.api.notes import Note
from muster.multicluster.dispatch.clone import count_lacking, has_changed, is_another, needs_growth
from muster.multicluster.dispatch.lead import draw_lot, find_end_of_head_start, find_lead
from muster.multicluster.dispatch.nominate import nominate_clusters
from muster.multicluster.dispatch.views import DispatchPlan, DispatchSettings, DispatchView, Remote
from muster.multicluster.links.sanitizing import one_line, sanitize_reason
from muster.queueing.conditions import MAX_MESSAGE, find_last_change, put
from muster.queueing.elastic.growth import limit_granted_pods

EVENT = "MultiKueue"

# If a cluster's engine does not stop a job within this time, the job is deleted.
STOPPING = timedelta(minutes=5)

# The controller of a job that shows its finish finishes the workload. If it has not done so in this time, MultiKueue
# does.
FINISHING = timedelta(seconds=5)

# Within this time after its start, a manager has attempted to connect to each cluster.
TRYING = timedelta(seconds=60)

LOST = "Admitting remote lost"
GONE = "Admitting remote no longer exists"


def decide(view: DispatchView, settings: DispatchSettings, now: datetime) -> DispatchPlan:
    """Decide what to write, create and delete now for one workload, from its observed state in all clusters."""
    plan = DispatchPlan(view.home, view.workload.status)
    status, state = view.workload.status, _find_check_state(view)
    if _is_over(view.workload):
        return _plan_withdrawal(plan, view, settings, now)
    if state == CHECK_REJECTED:
        return plan  # the workload is being deactivated, which resets all checks
    if not view.check and not view.home:  # the workload is no longer dispatched
        return replace(
            plan, status=replace(status, nominated_cluster_names=()), remove=_list_occupied_clusters(view.remotes)
        )
    if view.objection and not view.home:
        return _set_check(plan, view, CHECK_REJECTED, view.objection, now)
    if view.home:
        return _plan_at_home(plan, view, settings, now)
    if is_true(status.conditions, EVICTED) or state == CHECK_RETRY:
        return replace(plan, remove=_list_occupied_clusters(view.remotes), stopped=True)
    if state == CHECK_READY:  # upstream's guard: the check is ready, but the home is unknown
        return _set_check(plan, view, CHECK_RETRY, GONE, now)
    if winner := _choose_home(view):
        known_at = _compute_known_time(view, settings)
        return replace(plan, home=winner) if known_at <= now else replace(plan, wake_at=known_at)
    return _plan_nomination(plan, view, settings, now)


def _is_over(workload: Workload) -> bool:
    """Return whether the workload must not run anywhere now: it is finished, deleted, or has no quota."""
    status = workload.status
    return (
        workload.metadata.deletion_timestamp is not None
        or is_true(status.conditions, FINISHED)
        or not is_true(status.conditions, QUOTA_RESERVED)
    )


def _plan_withdrawal(plan: DispatchPlan, view: DispatchView, settings: DispatchSettings, now: datetime) -> DispatchPlan:
    """Plan for a workload that must not run now: remove it from all clusters except the one where it has finished.

    Lost clusters are cleaned up when they are connected again.
    """
    end_cluster, home = _find_end_cluster(view), _find_home(view)
    plan = replace(plan, remove=_list_occupied_clusters(remote for remote in view.remotes if remote is not end_cluster))
    if end_cluster is not None and plan.status.cluster_name is None:  # the job ended before its cluster was written
        return _name_home(plan, end_cluster)
    if home is None:
        return plan
    if home.lost_since is None:
        if is_clear(view.workload, home):
            return replace(plan, home="")
        # remove everything else in that cluster
        return replace(plan, mirror=home.cluster) if home is end_cluster else plan
    given_up_at = _compute_give_up_time(home, home.lost_since, settings)
    return replace(plan, home="") if given_up_at <= now else replace(plan, wake_at=given_up_at)


def _compute_give_up_time(home: Remote, lost_since: datetime, settings: DispatchSettings) -> datetime:
    """Return when to give up a home whose cluster is lost: after the timeout, and a first attempt to connect."""
    given_up_at = lost_since + settings.lost_timeout
    return given_up_at if home.is_tried else max(given_up_at, settings.began + TRYING)


def _compute_known_time(view: DispatchView, settings: DispatchSettings) -> datetime:
    """Return the time before which the manager must not choose a home, because the workload may run elsewhere.

    A workload that is older than this manager's start may run in a cluster that is not connected yet. That is possible
    even if no home is stored, because the manager's store may have been restored from a backup.
    """
    created = view.workload.metadata.creation_timestamp
    is_new = created is not None and created > settings.began
    is_found = all(remote.lost_since is None for remote in view.remotes)
    return settings.began if is_new or is_found else settings.began + TRYING


def is_clear(workload: Workload, remote: Remote) -> bool:
    """Return whether no pod of a workload can run in a cluster any more.

    Either the cluster has none of its objects, or the workload has finished both there and in the manager.
    """
    return remote.is_empty or has_ended_for_good(workload, remote)


def has_ended_for_good(workload: Workload, remote: Remote) -> bool:
    """Return whether the workload has finished in the manager and in the cluster, with all its pods.

    That is final, so the cache need not be checked against the cluster's server.
    """
    return _is_finished(workload) and remote.is_over


def _find_end_cluster(view: DispatchView) -> Remote | None:
    """Return the cluster in which the workload finished; None if it has not finished, or is being deleted."""
    if not _is_finished(view.workload):
        return None
    name = view.home or view.workload.status.cluster_name
    ended_remote = next((remote for remote in view.remotes if remote.cluster == name and remote.has_ended), None)
    return ended_remote if ended_remote is not None and not _has_mismatched_job(ended_remote, view.workload) else None


def _is_finished(workload: Workload) -> bool:
    """Return whether the workload has finished and is not being deleted."""
    return is_true(workload.status.conditions, FINISHED) and workload.metadata.deletion_timestamp is None


def _plan_at_home(plan: DispatchPlan, view: DispatchView, settings: DispatchSettings, now: datetime) -> DispatchPlan:
    """Plan for a workload with a home: its job runs there, is created, or must be removed."""
    home = _find_home(view)
    assert home is not None
    plan = replace(plan, remove=_list_occupied_clusters(remote for remote in view.remotes if remote is not home))
    if home.lost_since is not None:
        given_up_at = _compute_give_up_time(home, home.lost_since, settings)
        return replace(plan, wake_at=given_up_at) if now < given_up_at else _plan_after_home_lost(plan, view, now)
    if is_true(view.workload.status.conditions, EVICTED):
        return _plan_stop(plan, view, home, now)
    if _find_check_state(view) == CHECK_RETRY:
        return plan  # the workload is being evicted in the manager
    if home.workload is None or home.is_barred or (home.job is None and not view.check):
        return _plan_after_clone_gone(plan, view, home, now)
    if (finished := find_true(home.workload.status.conditions, FINISHED)) is not None:
        return _plan_after_clone_finished(plan, view, home, finished, now)
    if is_another(view.workload, home.workload):
        return _plan_after_clone_gone(replace(plan, remove=(*plan.remove, home.cluster)), view, home, now)
    if not is_true(home.workload.status.conditions, ADMITTED) or is_true(home.workload.status.conditions, EVICTED):
        return _plan_after_remote_eviction(plan, view, home, now)
    plan = _plan_alignment(plan, view.workload, home.cluster, home.workload)
    if home.job is None or _has_mismatched_job(home, view.workload):  # delete jobs elsewhere first
        held = any(remote.may_run for remote in view.remotes if remote is not home and remote.lost_since is None)
        return plan if held else replace(plan, mirror=home.cluster)
    return _plan_running(replace(plan, mirror=home.cluster), view, home, now)


def _plan_alignment(plan: DispatchPlan, workload: Workload, cluster: str, clone: Workload) -> DispatchPlan:
    """Plan to give the clone the workload's size and priority. If the home refused more pods, give up their quota."""
    if refusal_of(workload) is not None and needs_growth(workload, clone):
        both = zip(workload.spec.pod_sets, clone.spec.pod_sets, strict=True)
        return replace(plan, status=limit_granted_pods(plan.status, {mine.name: its.count for mine, its in both}))
    return replace(plan, align=(cluster,)) if has_changed(workload, clone) else plan


def _plan_after_clone_finished(
    plan: DispatchPlan, view: DispatchView, home: Remote, finished: Condition, now: datetime
) -> DispatchPlan:
    """Plan for a finished clone at home: finish the workload, or restart it if its own job did not finish."""
    if finished.reason == OUT_OF_SYNC:
        return _plan_out_of_sync(plan, view, home, finished, now)
    if _has_mismatched_job(home, view.workload):  # another job may have ended
        return _plan_after_clone_gone(replace(plan, remove=(*plan.remove, home.cluster)), view, home, now)
    return _plan_end(plan, view, home, finished, now)


def _plan_running(plan: DispatchPlan, view: DispatchView, home: Remote, now: datetime) -> DispatchPlan:
    """Plan for a job that exists at home: set the workload's check to Ready, so that the manager admits it, too."""
    plan = _name_home(plan, home)
    if plan.status.cluster_name is None:
        return plan
    message = f'The workload was admitted on "{home.cluster}"'
    if (refusal := refusal_of(view.workload)) is not None:
        message += f", which does not let it grow: {refusal.said}"
    elif home.workload is not None and (lacks := count_lacking(view.workload, home.workload)):
        message += f", where it waits for quota for {lacks} more pod{'s' if lacks > 1 else ''}"
    return _set_check(plan, view, CHECK_READY, message, now)


def _name_home(plan: DispatchPlan, home: Remote) -> DispatchPlan:
    """Return the plan with `clusterName` in its status.

    A home that was not nominated is nominated first, as the API requires.
    """
    status = plan.status
    if status.cluster_name is None and home.cluster not in status.nominated_cluster_names:
        # An earlier manager nominated it, and its store is lost: the API requires this order.
        return replace(plan, status=replace(status, nominated_cluster_names=(home.cluster,)))
    return replace(plan, status=replace(status, cluster_name=home.cluster, nominated_cluster_names=()))


def _plan_after_home_lost(plan: DispatchPlan, view: DispatchView, now: datetime) -> DispatchPlan:
    """Plan to give up a lost home, so that the workload restarts in another cluster."""
    if _find_check_state(view) in (CHECK_PENDING, ""):  # also after an eviction, which resets all checks
        return replace(plan, home="")
    return _set_check(plan, view, CHECK_RETRY, LOST, now)


def _plan_after_clone_gone(plan: DispatchPlan, view: DispatchView, home: Remote, now: datetime) -> DispatchPlan:
    """Plan for a clone at home that was deleted or cannot have a job.

    Remove the workload's other objects in that cluster, and restart the workload.
    """
    if _find_check_state(view) == CHECK_READY:
        return _set_check(plan, view, CHECK_RETRY, GONE, now)
    if not home.is_empty:
        return replace(plan, remove=_list_occupied_clusters(view.remotes))
    return replace(plan, home="")


def _plan_out_of_sync(
    plan: DispatchPlan, view: DispatchView, home: Remote, finished: Condition, now: datetime
) -> DispatchPlan:
    message = f'Workload out of sync on worker cluster: "{home.cluster}". {one_line(finished.message)}'
    return _set_check(plan, view, CHECK_RETRY, message, now)


def _plan_after_remote_eviction(plan: DispatchPlan, view: DispatchView, home: Remote, now: datetime) -> DispatchPlan:
    """Plan for a clone that its worker evicted: evict the workload in the manager, too."""
    if _find_check_state(view) == CHECK_READY:
        message = (
            f'Workload evicted on worker cluster: "{home.cluster}", resetting for re-admission. '
            f'Previously: "{CHECK_READY}"'
        )
        return _set_check(plan, view, CHECK_RETRY, message, now)
    # Remove the clone, too, because a job that is just being created can never start without it.
    return replace(plan, remove=(*plan.remove, home.cluster))


def _plan_end(plan: DispatchPlan, view: DispatchView, home: Remote, finished: Condition, now: datetime) -> DispatchPlan:
    """Plan for a job that has finished at home: finish the workload after the manager's job shows this.

    An evicted workload is finished at once.
    """
    if not view.mirrored:
        return replace(plan, mirror=home.cluster)
    evicted = is_true(view.workload.status.conditions, EVICTED)
    if not evicted and view.ended_since is not None and now < (due := view.ended_since + FINISHING):
        return replace(plan, wake_at=due)
    why, message = sanitize_reason(finished.reason), one_line(finished.message, MAX_MESSAGE)
    conditions = put(plan.status.conditions, FINISHED, True, why, message, now)
    return replace(plan, status=replace(plan.status, conditions=conditions))


def _plan_stop(plan: DispatchPlan, view: DispatchView, home: Remote, now: datetime) -> DispatchPlan:
    """Plan for a workload that is evicted in the manager: stop its job at home, and remove its objects there.

    The workload keeps its quota in the manager until these objects are deleted.
    """
    if home.is_empty:
        return replace(plan, home="")
    clone = home.workload
    if home.job is None or _has_mismatched_job(home, view.workload) or clone is None:
        return replace(plan, remove=(*plan.remove, home.cluster))
    finished = find_true(clone.status.conditions, FINISHED)
    if finished is not None and finished.reason != OUT_OF_SYNC:  # the job ended before it was stopped
        return _plan_end(plan, view, home, finished, now)
    if finished is not None or not is_true(clone.status.conditions, QUOTA_RESERVED):
        return replace(plan, mirror=home.cluster, remove=(*plan.remove, home.cluster))
    given_up_at = find_last_change(find_true(view.workload.status.conditions, EVICTED), now) + STOPPING
    if given_up_at <= now:
        return replace(plan, remove=(*plan.remove, home.cluster))
    return replace(
        plan, mirror=home.cluster, evict="" if _was_told_to_stop(clone) else home.cluster, wake_at=given_up_at
    )


def _was_told_to_stop(clone: Workload) -> bool:
    """Return whether the clone is inactive or about to be deactivated, so that it gets no quota again."""
    return is_true(clone.status.conditions, DEACTIVATION_TARGET) or not clone.spec.active


def _plan_nomination(plan: DispatchPlan, view: DispatchView, settings: DispatchSettings, now: datetime) -> DispatchPlan:
    """Plan to nominate clusters, to create or update the clones there, and to remove clones elsewhere."""
    others = (check for check in plan.status.admission_checks if check.name != view.check)
    if any(check.state != CHECK_READY for check in others):
        return plan
    leftovers = _list_occupied_clusters(remote for remote in view.remotes if _is_leftover(remote, view.workload))
    able = [remote for remote in view.remotes if _is_able(remote) and remote.cluster not in leftovers]
    names, wake_at = nominate_clusters(plan.status, able, settings, now)
    status = replace(plan.status, nominated_cluster_names=names)
    nominated = [remote for remote in able if remote.cluster in names]
    lead = find_lead(view, nominated, settings, now)
    until = find_end_of_head_start(lead, nominated, now)
    return replace(
        _plan_barred(replace(plan, status=status), view, now),
        remove=leftovers,
        create=tuple(
            remote.cluster
            for remote in nominated
            if remote.workload is None and (lead is None or until is None or remote.cluster == lead.cluster)
        ),
        align=tuple(
            remote.cluster
            for remote in nominated
            if remote.workload is not None and has_changed(view.workload, remote.workload)
        ),
        lead=lead,
        wake_at=min(filter(None, (until, wake_at)), default=None),
    )


def _plan_barred(plan: DispatchPlan, view: DispatchView, now: datetime) -> DispatchPlan:
    """Plan to name in the check's message the clusters where a foreign object has the job's name."""
    sentence = describe_barred(remote.cluster for remote in view.remotes if remote.chosen_for and remote.is_barred)
    message = next((one.message for one in view.workload.status.admission_checks if one.name == view.check), "")
    return _set_check(plan, view, CHECK_PENDING, sentence, now) if sentence or find_barred(message) else plan


def _choose_home(view: DispatchView) -> str:
    """Return the cluster that becomes the home; "" if no cluster has admitted the workload.

    A cluster where the job already runs comes first (a manager may have lost its store), then the first that admitted
    it. Times have whole seconds. Among equal times upstream takes any cluster; Muster draws lots, so that jobs spread.
    """
    able = [remote for remote in view.remotes if _is_able(remote) and not _is_leftover(remote, view.workload)]
    running = [remote for remote in able if remote.job is not None and remote.job.started]
    admitted = [
        (condition.last_transition_time, draw_lot(view.workload, remote.cluster), remote.cluster)
        for remote in able
        if remote.workload is not None
        and (condition := find_true(remote.workload.status.conditions, ADMITTED)) is not None
        and condition.last_transition_time is not None
        and not is_true(remote.workload.status.conditions, EVICTED)
    ]
    names = {remote.cluster for remote in running}
    first = min((one for one in admitted if one[2] in names), default=None) or min(admitted, default=None)
    return first[2] if first is not None else ""


def _is_able(remote: Remote) -> bool:
    return remote.chosen_for and remote.lost_since is None and not remote.is_barred


def _is_leftover(remote: Remote, workload: Workload) -> bool:
    """Return whether the objects in a cluster must be deleted.

    That is so if the cluster is not chosen for the workload, if the job belongs to another workload or is already being
    deleted, or if the clone is outdated, has finished or can never get quota again.
    """
    if (
        _has_mismatched_job(remote, workload)
        or not remote.chosen_for
        or (remote.job is not None and remote.job.is_going)
    ):
        return True
    clone = remote.workload
    if clone is None:
        return False
    return is_another(workload, clone) or is_true(clone.status.conditions, FINISHED) or _was_told_to_stop(clone)


def _has_mismatched_job(remote: Remote, workload: Workload) -> bool:
    """Return whether the worker has a job with this manager's label that belongs to another workload."""
    return remote.job is not None and remote.job.workload != workload.metadata.name


def _list_occupied_clusters(remotes: Iterable[Remote]) -> tuple[str, ...]:
    """Return the reachable clusters that have objects of this manager for the workload."""
    return tuple(remote.cluster for remote in remotes if remote.lost_since is None and not remote.is_empty)


def _find_home(view: DispatchView) -> Remote | None:
    return next((remote for remote in view.remotes if remote.cluster == view.home), None)


def _find_check_state(view: DispatchView) -> str:
    return next((one.state for one in view.workload.status.admission_checks if one.name == view.check), "")


def _set_check(plan: DispatchPlan, view: DispatchView, state: str, message: str, now: datetime) -> DispatchPlan:
    """Set the state and message of the check in a plan's status; add an Event if either changes."""
    moment, checks = now.replace(microsecond=0), []
    for check in plan.status.admission_checks:
        if check.name == view.check and (check.state, check.message) != (state, message):
            since_then = check.last_transition_time if check.state == state else moment
            check = replace(check, state=state, message=message, last_transition_time=since_then)
            plan = replace(plan, notes=(*plan.notes, *_make_notes(state, message)))
        checks.append(check)
    return replace(plan, status=replace(plan.status, admission_checks=tuple(checks)))


def _make_notes(state: str, message: str) -> tuple[Note, ...]:
    return (Note("Normal" if state == CHECK_READY else "Warning", EVENT, message),) if message else ()


def of_workload(status: WorkloadStatus, checks: Iterable[str]) -> str:
    """Return the first of these checks that the workload has; "" if it has none."""
    listed = {check.name for check in status.admission_checks}
    return next((name for name in checks if name in listed), "")
