"""Report on a takeover from Kueue: which jobs Muster would manage, and which it would not.

`make_report` takes the objects of a cluster on which Kueue's manager runs, and returns counts and findings. The caller
reads the cluster.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins

from muster.api.batch import Job
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.kueue import ClusterQueue, Workload
from muster.api.kueue.names import (
    ADMITTED,
    CONCURRENT_ADMISSION_GATE,
    FINISHED,
    POD_SET_LABEL,
    QUOTA_RESERVED,
)
from muster.api.managed.variants import is_variant
from muster.api.meta import ObjectMeta, controller_of
from muster.insight.why.gates import Gate, find_gates
from muster.queueing.jobframework.slices import waits_to_replace

GroupKind = tuple[str, str]

STATES: Final = ("admitted", "reserved", "pending", "inactive", "finished")
# The kinds of jobs that Muster resizes while they run.
_RESIZED: Final = frozenset({("batch", "Job"), ("jobset.x-k8s.io", "JobSet")})
# The maximum number of objects that the text of a finding names.
NAMED: Final = 5


class Survey(Struct, frozen=True):
    """The objects of a cluster from which the report is made.

    jobs: the running Jobs that name a queue.
    pods: the pods that a scheduling gate of Kueue holds.
    old: the CRDs of Kueue's kinds whose objects may be stored in an older version.
    webhooks: the configurations of Kueue's webhooks.
    manager: the holder of the Lease of Kueue's manager; "" if there is none or if it is a replica of Muster.
    idle: the frameworks that the settings name and Muster does not support, with the reason.
    variants: whether the feature gate ConcurrentAdmission is on.
    """

    workloads: Sequence[Workload] = ()
    queues: Sequence[ClusterQueue] = ()
    jobs: Sequence[Job] = ()
    pods: Sequence[Pod] = ()
    old: Sequence[Any] = ()
    webhooks: Sequence[str] = ()
    manager: str = ""
    idle: Mapping[str, str] = {}
    variants: bool = False


class Finding(Struct, frozen=True):
    """A fact that a user must know before the takeover: objects that Muster ignores, or that prevent the takeover.

    what: what the objects have in common.
    advice: what the user can do.
    objects: the names of the objects, such as `default/train`.
    """

    what: str
    advice: str
    objects: tuple[str, ...]


class Row(Struct, frozen=True):
    """The number of workloads of one kind of job, by state.

    handled: whether Muster starts and stops such jobs.
    """

    kind: str
    handled: bool
    counts: dict[str, int]


class TakeoverReport(Struct, frozen=True):
    """The report about a takeover of Kueue's workloads by Muster.

    rows: the number of workloads of each kind of job by state, including kinds that Muster would not manage.
    findings: what Muster would not manage, or what prevents the takeover; empty if the takeover can begin.
    gates: the scheduling gates of waiting pods.
    """

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    gates: tuple[Gate, ...] = ()


def make_report(
    seen: Survey,
    handled: Collection[GroupKind],
    known: Collection[GroupKind] = (),
    named: Collection[GroupKind] = (),
) -> TakeoverReport:
    """Return the report about a cluster.

    handled: the kinds of jobs on which Muster acts.
    known: the kinds on which Muster could act.
    named: the kinds that the settings name.
    """
    findings = tuple(_list_findings(seen, handled, known, named))
    return TakeoverReport(_make_rows(_list_owned_by_jobs(seen), handled), findings, find_gates(seen.pods))


def _list_owned_by_jobs(seen: Survey) -> list[Workload]:
    """Return the Workloads; variants of other Workloads are left out if the feature gate of variants is on."""
    return [one for one in seen.workloads if not (seen.variants and is_variant(one))]


def list_restarting(seen: Survey) -> tuple[str, ...]:
    """Return the names of the running Jobs that Muster would restart."""
    return tuple(sorted(map(_name_object, _list_restarting_jobs(seen))))


def _list_restarting_jobs(seen: Survey) -> list[Job]:
    return [one for one in seen.jobs if POD_SET_LABEL not in one.spec.template.metadata.labels]


def make_document(report: TakeoverReport) -> dict[str, Any]:
    """Return the report as the document of `-o json`."""
    document: dict[str, Any] = to_builtins(report)
    return {"workloads": document["rows"], "gates": document["gates"], "findings": document["findings"]}


def format_finding(finding: Finding) -> str:
    """Return a finding as two lines: the first few objects with what they have in common, and the advice."""
    named, more = ", ".join(finding.objects[:NAMED]), len(finding.objects) - NAMED
    return f"{finding.what}: {named}{f' and {more} more' if more > 0 else ''}\n  {finding.advice}"


def state_of(workload: Workload) -> str:
    """Return the state of a workload: finished, admitted, reserved, pending or inactive."""
    conditions = workload.status.conditions
    if is_true(conditions, FINISHED):
        return "finished"
    if is_true(conditions, ADMITTED):
        return "admitted"
    if is_true(conditions, QUOTA_RESERVED):
        return "reserved"
    return "pending" if workload.spec.active else "inactive"


def kind_of(workload: Workload) -> GroupKind:
    """Return the API group and the kind of the job of a workload; both are "" if it has no owner."""
    owner = controller_of(workload.metadata) or next(iter(workload.metadata.owner_references), None)
    return (owner.api_version.rpartition("/")[0], owner.kind) if owner is not None else ("", "")


def _make_rows(workloads: Iterable[Workload], handled: Collection[GroupKind]) -> tuple[Row, ...]:
    counts: dict[GroupKind, Counter[str]] = {}
    for workload in workloads:
        counts.setdefault(kind_of(workload), Counter())[state_of(workload)] += 1
    return tuple(
        Row(_describe_kind(kind), kind in handled, {state: counts_by_state[state] for state in STATES})
        for kind, counts_by_state in sorted(counts.items())
    )


def _describe_kind(kind: GroupKind) -> str:
    group, name = kind
    return f"{name}.{group}" if group else name or "none"


def _list_findings(
    seen: Survey, handled: Collection[GroupKind], known: Collection[GroupKind], named: Collection[GroupKind]
) -> Iterable[Finding]:
    """Yield what prevents or limits a takeover from Kueue, the most important first.

    handled, known, named: as in `make_report`.
    """
    if seen.manager:
        text = "stop it before Muster starts: kubectl -n kueue-system scale deployment kueue-controller-manager"
        yield Finding("Kueue's manager runs", f"{text} --replicas=0", (seen.manager,))
    if seen.webhooks:
        text = "the server refuses what it cannot ask them about: delete them once Kueue's manager is stopped"
        yield Finding("Kueue's webhooks are asked, which end with its manager", text, tuple(seen.webhooks))
    yield from _list_some(
        "kinds of Kueue's whose objects may still be stored in an old version",
        "they have to be converted, or fields with other names now, such as the cohort of a ClusterQueue, are lost:"
        " install Muster's kinds and webhooks before Kueue's are deleted",
        seen.old,
    )
    for why in sorted(set(seen.idle.values())):
        names = tuple(sorted(name for name in seen.idle if seen.idle[name] == why))
        text = "objects of these kinds run without quota: take them out of the settings, or end them first"
        yield Finding(f"frameworks that the settings name and Muster does not act on ({why})", text, names)
    live = [one for one in _list_owned_by_jobs(seen) if state_of(one) != "finished"]
    yield from _of_kinds(live, handled, known, named)
    yield from _list_some(
        "Jobs that run without the label that admission gives to their pods",
        "they would be stopped and started again, where they have quota: let them end first",
        _list_restarting_jobs(seen),
    )
    yield from _of_features(live, fixed=set(handled) - _RESIZED, variants=seen.variants)
    if not seen.variants:
        yield from _list_some(
            "ClusterQueues that try several flavors at once, which the settings do not ask for",
            "set the gate ConcurrentAdmission; without it a workload is tried in one flavor after the other",
            [queue for queue in seen.queues if queue.spec.concurrent_admission_policy is not None],
        )


def _of_kinds(
    live: Sequence[Workload],
    handled: Collection[GroupKind],
    known: Collection[GroupKind],
    named: Collection[GroupKind],
) -> Iterable[Finding]:
    others = sorted({kind_of(one) for one in live} - set(handled) - {("", "")})
    for kind in others:
        if kind in known:
            advice = "name the kind in integrations.frameworks of the Configuration, and they are taken on"
        else:
            advice = "they keep their quota, and new ones get some, but only Kueue starts, stops or ends them"
        lack = "name and Muster does not act on" if kind in named else "do not name"
        what = f"workloads of {_describe_kind(kind)}, which the settings {lack}"
        yield from _list_some(what, advice, [one for one in live if kind_of(one) == kind])


def _of_features(live: Sequence[Workload], fixed: Collection[GroupKind], *, variants: bool) -> Iterable[Finding]:
    """Yield the findings about features that unfinished workloads use and that Muster ignores.

    fixed: the kinds of jobs that keep their size while they run.
    variants: whether the feature gate of variants is on.
    """
    acted_on = {CONCURRENT_ADMISSION_GATE} if variants else set[str]()
    yield from _list_some(
        "slices that wait to replace another workload, of a kind that keeps its size here",
        "the job would stop, and queue again in its new size: scale it back, or wait until Kueue admits the slice",
        [one for one in live if waits_to_replace(one) and kind_of(one) in fixed],
    )
    yield from _list_some(
        "workloads with gates of preemption",
        "Muster does not open them, and preempts for these workloads as for others",
        [one for one in live if {gate.name for gate in one.spec.preemption_gates} - acted_on],
    )
    yield from _list_some(
        "workloads whose places are to be found after their checks",
        "Muster finds no places for them: they wait for Kueue",
        [one for one in live if state_of(one) == "reserved" and _is_delayed(one)],
    )


def _is_delayed(workload: Workload) -> bool:
    admission = workload.status.admission
    return admission is not None and any(one.delayed_topology_request for one in admission.pod_set_assignments)


def _list_some(title: str, advice: str, objects: Sequence[Any]) -> Iterable[Finding]:
    if objects:
        yield Finding(title, advice, tuple(sorted(map(_name_object, objects))))


def _name_object(obj: Any) -> str:
    meta: ObjectMeta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
