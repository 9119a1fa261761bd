"""What Muster would find where Kueue's manager has worked: what it takes on, and what it would leave as it is. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins

from muster.api.batch import Job
from muster.api.conditions import is_true
from muster.api.kueue import CHECK_READY, AdmissionCheck, ClusterQueue, Workload
from muster.api.kueue.names import (
    ADMITTED,
    FINISHED,
    POD_SET_LABEL,
    PROVISIONING_REQUEST_CONTROLLER,
    QUOTA_RESERVED,
)
from muster.api.meta import ObjectMeta, controller_of
from muster.queueing.jobframework.slices import waits_to_replace

GroupKind = tuple[str, str]

STATES: Final = ("admitted", "reserved", "pending", "inactive", "finished")
# How many objects of a finding are named to people.
NAMED: Final = 5


class Seen(Struct, frozen=True):
    """What was read of the cluster.

    manager: who holds the Lease of Kueue's manager, other than a replica of Muster; "" if none does.
    old: the definitions of Kueue's kinds of which objects may be stored in an older version than the current one.
    webhooks: the configurations that have Kueue's webhooks asked.
    jobs: those that run and name a queue.
    """

    workloads: Sequence[Workload] = ()
    queues: Sequence[ClusterQueue] = ()
    checks: Sequence[AdmissionCheck] = ()
    jobs: Sequence[Job] = ()
    old: Sequence[Any] = ()
    webhooks: Sequence[str] = ()
    manager: str = ""


class Finding(Struct, frozen=True):
    """Something that Muster does not act on, or that is in its way.

    what: of several objects, what they have in common. advice: what to do. objects: which, such as `default/train`.
    """

    what: str
    advice: str
    objects: tuple[str, ...]


class Row(Struct, frozen=True):
    """The workloads of one kind of jobs, by state. handled: whether Muster starts and stops such jobs."""

    kind: str
    handled: bool
    counts: dict[str, int]


class Report(Struct, frozen=True):
    """rows: what would be taken on. findings: what would not, or stands in the way; nothing if it can begin."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]


def report(seen: Seen, handled: Collection[GroupKind], known: Collection[GroupKind] = ()) -> Report:
    """Of a cluster. handled: kinds of jobs that the settings name; known: those that they could name."""
    return Report(_rows(seen.workloads, handled), tuple(_findings(seen, handled, known)))


def document(report: Report) -> dict[str, Any]:
    """As `-o json` has it."""
    found: dict[str, Any] = to_builtins(report)
    return {"workloads": found["rows"], "findings": found["findings"]}


def sentence(finding: Finding) -> str:
    """A finding in two lines."""
    named, more = ", ".join(finding.objects[:NAMED]), len(finding.objects) - NAMED
    return f"{finding.what}: {named}{f' and {more} more' if more > 0 else ''}\n  {finding.advice}"


def state_of(workload: Workload) -> str:
    """One of `STATES`."""
    conditions = workload.status.conditions
    if is_true(conditions, FINISHED):
        return "finished"
    if is_true(conditions, ADMITTED):
        return "admitted"
    if is_true(conditions, QUOTA_RESERVED):
        return "reserved"
    return "pending" if workload.spec.active else "inactive"


def kind_of(workload: Workload) -> GroupKind:
    """The kind of job that it is of, by its API group; two empty words if it has no owner."""
    owner = controller_of(workload.metadata) or next(iter(workload.metadata.owner_references), None)
    return (owner.api_version.rpartition("/")[0], owner.kind) if owner is not None else ("", "")


def _rows(workloads: Iterable[Workload], handled: Collection[GroupKind]) -> tuple[Row, ...]:
    counts: dict[GroupKind, Counter[str]] = {}
    for workload in workloads:
        counts.setdefault(kind_of(workload), Counter())[state_of(workload)] += 1
    return tuple(
        Row(_word(kind), kind in handled, {state: found[state] for state in STATES})
        for kind, found in sorted(counts.items())
    )


def _word(kind: GroupKind) -> str:
    group, name = kind
    return f"{name}.{group}" if group else name or "none"


def _findings(seen: Seen, handled: Collection[GroupKind], known: Collection[GroupKind]) -> Iterable[Finding]:
    if seen.manager:
        text = "stop it before Muster starts: kubectl -n kueue-system scale deployment kueue-controller-manager"
        yield Finding("Kueue's manager runs", f"{text} --replicas=0", (seen.manager,))
    if seen.webhooks:
        text = "the server refuses what it cannot ask them about: delete them once Kueue's manager is stopped"
        yield Finding("Kueue's webhooks are asked, which end with its manager", text, tuple(seen.webhooks))
    yield from _some(
        "kinds of Kueue's whose objects may still be stored in an old version",
        "they have to be converted, or fields with other names now, such as the cohort of a ClusterQueue, are lost:"
        " install Muster's kinds and webhooks before Kueue's are deleted",
        seen.old,
    )
    live = [one for one in seen.workloads if state_of(one) != "finished"]
    yield from _of_kinds(live, handled, known)
    jobs = [one for one in seen.jobs if POD_SET_LABEL not in one.spec.template.metadata.labels]
    yield from _some(
        "Jobs that run without the label that admission gives to their pods",
        "they would be stopped and started anew, where they have quota: let them end first",
        jobs,
    )
    yield from _of_features(live)
    yield from _of_checks(live, seen.checks)
    yield from _some(
        "ClusterQueues that try several flavors at once",
        "here a workload is tried in one flavor after the other: its variants stay as they are",
        [queue for queue in seen.queues if queue.spec.concurrent_admission_policy is not None],
    )


def _of_kinds(
    live: Sequence[Workload], handled: Collection[GroupKind], known: Collection[GroupKind]
) -> Iterable[Finding]:
    others = sorted({kind_of(one) for one in live} - set(handled) - {("", "")})
    for kind in others:
        if kind in known:
            advice = "name the kind in integrations.frameworks of the Configuration, and they are taken on"
        else:
            advice = "they keep their quota, and new ones get some, but only Kueue starts, stops or ends them"
        what = f"workloads of {_word(kind)}, which the settings do not name"
        yield from _some(what, advice, [one for one in live if kind_of(one) == kind])


def _of_features(live: Sequence[Workload]) -> Iterable[Finding]:
    yield from _some(
        "slices that wait to replace another workload",
        "they stay as they are: the workload that runs grows instead, once there is quota",
        [one for one in live if waits_to_replace(one)],
    )
    yield from _some(
        "workloads with gates of preemption",
        "Muster does not open them, and preempts for these workloads as for others",
        [one for one in live if one.spec.preemption_gates],
    )
    yield from _some(
        "workloads with resource claims",
        "devices of claims are not counted in quotas here, and the scheduler `muster` places no such pods",
        [one for one in live if any(podset.template.spec.resource_claims for podset in one.spec.pod_sets)],
    )
    yield from _some(
        "workloads whose places are to be found after their checks",
        "Muster finds no places for them: they wait for Kueue",
        [one for one in live if state_of(one) == "reserved" and _is_delayed(one)],
    )


def _is_delayed(workload: Workload) -> bool:
    admission = workload.status.admission
    return admission is not None and any(one.delayed_topology_request for one in admission.pod_set_assignments)


def _of_checks(live: Sequence[Workload], checks: Sequence[AdmissionCheck]) -> Iterable[Finding]:
    for check in checks:
        name = check.metadata.name
        if check.spec.controller_name == PROVISIONING_REQUEST_CONTROLLER:
            yield from _some(
                f"workloads that wait for the check {name}",
                "Kueue's manager itself asks for the machines (ProvisioningRequest): they keep their quota and wait,"
                " until Kueue is back or the check is taken out of their ClusterQueue",
                [one for one in live if _waits_for(name, one)],
            )


def _waits_for(check: str, workload: Workload) -> bool:
    return any(one.name == check and one.state != CHECK_READY for one in workload.status.admission_checks)


def _some(what: str, advice: str, objects: Sequence[Any]) -> Iterable[Finding]:
    if objects:
        yield Finding(what, advice, tuple(sorted(map(_name, objects))))


def _name(obj: Any) -> str:
    meta: ObjectMeta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
