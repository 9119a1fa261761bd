"""The columns and cells of PodGroups, as the CRD of each kind defines them.

Scheduler KEP-34 (kube-batch) defines no columns, so its PodGroup shows the counters in its status.
"""

from datetime import datetime

from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.cluster.apiserver.tables.printer import NAME, Cells, Column, Printer, format_age, make_wide_column


def _make_integer_column(name: str, description: str) -> Column:
    return Column(name=name, type="integer", description=description)


def _make_age_column(name: str, description: str) -> Column:
    return Column(name=name, type="date", description=description)


def _render_kep_group(group: kep.PodGroup, now: datetime) -> Cells:
    spec, status = group.spec, group.status
    return [
        group.metadata.name,
        spec.min_member if spec.min_members is None else spec.min_members,
        status.admitted,
        status.running,
        status.succeeded,
        status.failed,
        format_age(group.metadata.creation_timestamp, now),
    ]


def _render_kube_batch(group: kubebatch.PodGroup, now: datetime) -> Cells:
    return [group.metadata.name, format_age(group.metadata.creation_timestamp, now)]


def _render_volcano_group(group: volcano.PodGroup, now: datetime) -> Cells:
    return [
        group.metadata.name,
        group.status.phase or None,
        group.spec.min_member or None,
        group.status.running or None,
        format_age(group.metadata.creation_timestamp, now),
        group.spec.queue,
    ]


def _render_coscheduling_group(group: coscheduling.PodGroup, now: datetime) -> Cells:
    status = group.status
    return [
        group.metadata.name,
        status.phase or None,
        group.spec.min_member,
        status.running or None,
        status.succeeded or None,
        status.failed or None,
        format_age(group.metadata.creation_timestamp, now),
    ]


_RUNNING = "The number of actively running pods."
_SUCCEEDED = "The number of pods which reached phase Succeeded."
_FAILED = "The number of pods which reached phase Failed."
_AGE = _make_age_column("Age", "Age is the time PodGroup was created.")
_KUBE_BATCH = Printer((NAME, _make_age_column("Age", "Time since the object was created.")), _render_kube_batch)

# The printers by `Kind.resource`.
POD_GROUPS: dict[str, Printer] = {
    kep.POD_GROUP.resource: Printer(
        (
            NAME,
            _make_integer_column("MinMembers", "The number of pods that start together, or none."),
            _make_integer_column("Admitted", "The number of admitted pods."),
            _make_integer_column("Running", _RUNNING),
            _make_integer_column("Succeeded", _SUCCEEDED),
            _make_integer_column("Failed", _FAILED),
            _AGE,
        ),
        _render_kep_group,
    ),
    kubebatch.POD_GROUP.resource: _KUBE_BATCH,
    sigs.POD_GROUP.resource: _KUBE_BATCH,
    volcano.POD_GROUP.resource: Printer(
        (
            NAME,
            Column(name="STATUS", description="Current phase of the group."),
            _make_integer_column("minMember", "The number of pods that start together, or none."),
            _make_integer_column("RUNNINGS", _RUNNING),
            _make_age_column("AGE", "Time since the object was created."),
            make_wide_column("QUEUE", "The queue of the group."),
        ),
        _render_volcano_group,
    ),
    coscheduling.POD_GROUP.resource: Printer(
        (
            NAME,
            Column(name="Phase", description="Current phase of PodGroup."),
            _make_integer_column(
                "MinMember", "MinMember defines the minimal number of members/tasks to run the pod group."
            ),
            _make_integer_column("Running", _RUNNING),
            _make_integer_column("Succeeded", _SUCCEEDED),
            _make_integer_column("Failed", _FAILED),
            _AGE,
        ),
        _render_coscheduling_group,
    ),
}
