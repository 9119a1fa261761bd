"""What `muster queue edit` changes of a ClusterQueue that there is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.api.kueue import BEST_EFFORT_FIFO, STRICT_FIFO

# In the place of a limit: there is none.
UNLIMITED = "unlimited"

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueueEdit:
    """What is to be another way; None and "" leave a thing as it is.

    quotas, borrowing, lending: by resource; a limit may be UNLIMITED. flavor: of which flavor; "" if there is only one.
    cohort: "" is none.
    """

    quotas: Mapping[str, str] = field(default_factory=dict)
    borrowing: Mapping[str, str] = field(default_factory=dict)
    lending: Mapping[str, str] = field(default_factory=dict)
    flavor: str = ""
    cohort: str | None = None
    strict: bool | None = None
    within: str = ""
    reclaim: str = ""
    weight: str = ""


def patch(spec: Spec, edit: QueueEdit) -> dict[str, Any]:
    """The merge patch of the spec. Raises `ValueError` that says what cannot be."""
    cohort = spec.get("cohortName", "") if edit.cohort is None else edit.cohort
    if (edit.borrowing or edit.lending) and not cohort:
        raise ValueError("it borrows and lends only in a cohort: --cohort")
    groups = [_copy(group) for group in spec.get("resourceGroups") or ()]
    for resource, quantity in edit.quotas.items():
        _quota(groups, resource, edit.flavor, new=True)["nominalQuota"] = quantity
    for limit, given in (("borrowingLimit", edit.borrowing), ("lendingLimit", edit.lending)):
        for resource, quantity in given.items():
            quota = _quota(groups, resource, edit.flavor, new=False)
            quota.pop(limit, None)
            if quantity != UNLIMITED:
                quota[limit] = quantity
    if not cohort:  # there they would be refused
        for quota in (quota for group in groups for flavor in group["flavors"] for quota in flavor["resources"]):
            quota.pop("borrowingLimit", None)
            quota.pop("lendingLimit", None)
    changed: dict[str, Any] = {"resourceGroups": groups or None}
    if edit.cohort is not None:
        changed["cohortName"] = edit.cohort or None
    if edit.strict is not None:
        changed["queueingStrategy"] = STRICT_FIFO if edit.strict else BEST_EFFORT_FIFO
    preemption = {"withinClusterQueue": edit.within, "reclaimWithinCohort": edit.reclaim}
    if given := {name: value for name, value in preemption.items() if value}:
        changed["preemption"] = given
    if edit.weight:
        changed["fairSharing"] = {"weight": edit.weight}
    return {name: value for name, value in changed.items() if _differs(spec.get(name), value)}


def _differs(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return any((there or {}).get(name) != value for name, value in wanted.items())
    return bool((there or None) != wanted)


def _copy(group: Spec) -> dict[str, Any]:
    flavors = [
        {**flavor, "resources": [dict(one) for one in flavor.get("resources") or ()]}
        for flavor in group.get("flavors") or ()
    ]
    return {**group, "coveredResources": list(group.get("coveredResources") or ()), "flavors": flavors}


def _quota(groups: list[dict[str, Any]], resource: str, flavor: str, *, new: bool) -> dict[str, Any]:
    """The quota of a resource, of that flavor or the only one; `new`: it is made, if there is none of the resource."""
    group = next((one for one in groups if resource in one["coveredResources"]), None)
    if group is None:
        if not new:
            raise ValueError(f"a limit of {resource} needs a quota of it, if only 0: --quota {resource}=0")
        group = _widened(groups, resource, flavor)
    names = [one["name"] for one in group["flavors"]]
    if not flavor and len(names) > 1:
        raise ValueError(f"{resource} has quotas of the flavors {', '.join(names)}: say which with --flavor")
    found = next((one for one in group["flavors"] if one["name"] == (flavor or names[0])), None)
    if found is None:
        raise ValueError(f"{resource} has no quota of the flavor {flavor}; there is: {', '.join(names)}")
    quota: dict[str, Any] = next(one for one in found["resources"] if one["name"] == resource)
    return quota


def _widened(groups: list[dict[str, Any]], resource: str, flavor: str) -> dict[str, Any]:
    """The group that a new resource belongs to; its flavors have none of it so far."""
    fitting = [one for one in groups if not flavor or flavor in [had["name"] for had in one["flavors"]]]
    if len(fitting) != 1:
        names = ", ".join(one["name"] for group in groups for one in group["flavors"])
        raise ValueError(
            f"{resource} has no quota so far; say of which flavor with --flavor: {names or 'there is none'}"
        )
    [group] = fitting
    group["coveredResources"].append(resource)
    for one in group["flavors"]:
        one["resources"].append({"name": resource, "nominalQuota": "0"})
    return group
