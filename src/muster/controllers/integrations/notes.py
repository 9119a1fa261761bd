"""Compose the messages of a job's events about its Workload. Pure; "" for no event."""

from muster.api.conditions import is_true
from muster.api.kueue import CHECK_PENDING, Workload
from muster.api.kueue.names import ADMISSION_GATED_BY, ADMITTED, QUOTA_RESERVED
from muster.runtime.objects import key_of


def of_update(old: Workload, new: Workload) -> str:
    """Return the message of an event about an update of a Workload's size, priority class or gates; else ""."""
    if old.spec.pod_sets != new.spec.pod_sets:
        holds = is_true(old.status.conditions, QUOTA_RESERVED)
        what = "Resized Workload" if holds else "Updated not matching Workload for suspended job"
        return f"{what}: {key_of(new)}"
    if old.spec.priority_class_ref != new.spec.priority_class_ref:
        return f"Updated workload priority class: {key_of(new)}"
    before, gates = (one.metadata.annotations.get(ADMISSION_GATED_BY, "") for one in (old, new))
    return f'Updated workload AdmissionGatedBy to "{gates}"' if gates != before else ""


def of_checks(workload: Workload) -> str:
    """Return the messages of the pending checks of a Workload with quota, joined by "; "; "" if there are none."""
    conditions = workload.status.conditions
    if not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, ADMITTED):
        return ""
    checks = (one for one in workload.status.admission_checks if one.state == CHECK_PENDING and one.message)
    return "; ".join(f"{check.name}: {check.message}" for check in checks)
