"""The columns and cells of PodGroups, as their CRDs define them; scheduler KEP-34 (kube-batch) shows its counters."""

from datetime import datetime

from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.cluster.apiserver.tables.printer import NAME, Cells, Column, Printer, age, wide


def _integer(name: str, description: str) -> Column:
    return Column(name=name, type="integer", description=description)


def _age(name: str, description: str) -> Column:
    return Column(name=name, type="date", description=description)


def _kep(group: kep.PodGroup, now: datetime) -> Cells:
    spec, status = group.spec, group.status
    return [
        group.metadata.name,
        spec.min_member if spec.min_members is None else spec.min_members,
        status.admitted,
        status.running,
        status.succeeded,
        status.failed,
        age(group.metadata.creation_timestamp, now),
    ]


def _kube_batch(group: kubebatch.PodGroup, now: datetime) -> Cells:
    return [group.metadata.name, age(group.metadata.creation_timestamp, now)]


def _volcano(group: volcano.PodGroup, now: datetime) -> Cells:
    return [
        group.metadata.name,
        group.status.phase or None,
        group.spec.min_member or None,
        group.status.running or None,
        age(group.metadata.creation_timestamp, now),
        group.spec.queue,
    ]


def _coscheduling(group: coscheduling.PodGroup, now: datetime) -> Cells:
    status = group.status
    return [
        group.metadata.name,
        status.phase or None,
        group.spec.min_member,
        status.running or None,
        status.succeeded or None,
        status.failed or None,
        age(group.metadata.creation_timestamp, now),
    ]


_RUNNING = "The number of actively running pods."
_SUCCEEDED = "The number of pods which reached phase Succeeded."
_FAILED = "The number of pods which reached phase Failed."
_AGE = _age("Age", "Age is the time PodGroup was created.")
_KUBE_BATCH = Printer((NAME, _age("Age", "Time since the object was created.")), _kube_batch)

# The printers by `Kind.resource`.
POD_GROUPS: dict[str, Printer] = {
    kep.POD_GROUP.resource: Printer(
        (
            NAME,
            _integer("MinMembers", "The number of pods that start together, or none."),
            _integer("Admitted", "The number of admitted pods."),
            _integer("Running", _RUNNING),
            _integer("Succeeded", _SUCCEEDED),
            _integer("Failed", _FAILED),
            _AGE,
        ),
        _kep,
    ),
    kubebatch.POD_GROUP.resource: _KUBE_BATCH,
    sigs.POD_GROUP.resource: _KUBE_BATCH,
    volcano.POD_GROUP.resource: Printer(
        (
            NAME,
            Column(name="STATUS", description="Current phase of the group."),
            _integer("minMember", "The number of pods that start together, or none."),
            _integer("RUNNINGS", _RUNNING),
            _age("AGE", "Time since the object was created."),
            wide("QUEUE", "The queue of the group."),
        ),
        _volcano,
    ),
    coscheduling.POD_GROUP.resource: Printer(
        (
            NAME,
            Column(name="Phase", description="Current phase of PodGroup."),
            _integer("MinMember", "MinMember defines the minimal number of members/tasks to run the pod group."),
            _integer("Running", _RUNNING),
            _integer("Succeeded", _SUCCEEDED),
            _integer("Failed", _FAILED),
            _AGE,
        ),
        _coscheduling,
    ),
}
