"""Make the patch that `muster queue edit` applies to a ClusterQueue. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.api.kueue import BEST_EFFORT_FIFO, STRICT_FIFO, USAGE_BASED_ADMISSION
from muster.api.ours.teams import QUEUE_USERS, USER_LIMITS, WITHOUT_TEAM, read_users, write_users
from muster.api.values.quantity import parse as parse_quantity

# The value that removes a limit.
UNLIMITED = "unlimited"

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueueEdit:
    """The changes of a queue that the user requested.

    None, or "" in a field other than cohort, leaves the field unchanged.

    quotas: the nominal quotas by resource.
    borrowing, lending: the limits by resource; UNLIMITED removes a limit.
    flavor: the ResourceFlavor whose quota changes; "" if the queue has only one.
    cohort: the new Cohort; "" removes the queue from its Cohort.
    users: the complete new list of the queue's users.
    added, removed: users to add and to remove.
    everybody: whether to let all users use the queue.
    limits: the limits of each user, by resource; UNLIMITED removes a limit.
    without_team: whether users without a team may run jobs in the queue.
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
    by_usage: bool | None = None
    users: frozenset[str] | None = None
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    everybody: bool = False
    limits: Mapping[str, str] = field(default_factory=dict)
    without_team: bool | None = None


def make_spec_patch(spec: Spec, edit: QueueEdit) -> dict[str, Any]:
    """Return the merge patch that applies an edit to a ClusterQueue's spec; empty if nothing changes.

    Raises `ValueError` with a sentence for the user.
    """
    cohort = spec.get("cohortName", "") if edit.cohort is None else edit.cohort
    if (edit.borrowing or edit.lending) and not cohort:
        raise ValueError("a queue borrows and lends only in a cohort: add --cohort")
    groups = [_copy_group(group) for group in spec.get("resourceGroups") or ()]
    for resource, quantity in edit.quotas.items():
        _find_quota(groups, resource, edit.flavor, new=True)["nominalQuota"] = quantity
    for limit, given in (("borrowingLimit", edit.borrowing), ("lendingLimit", edit.lending)):
        for resource, quantity in given.items():
            quota = _find_quota(groups, resource, edit.flavor, new=False)
            quota.pop(limit, None)
            if quantity != UNLIMITED:
                quota[limit] = quantity
    if not cohort:  # the server refuses limits outside a Cohort
        for quota in (quota for group in groups for flavor in group["flavors"] for quota in flavor["resources"]):
            quota.pop("borrowingLimit", None)
            quota.pop("lendingLimit", None)
    changed = {"resourceGroups": groups or None} | _change_rules(edit)
    return {name: value for name, value in changed.items() if _differs(spec.get(name), value)}


def patch_quotas(spec: Spec, quotas: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return the merge patch that sets nominal quotas by flavor and resource; empty if they are set already.

    Raises `ValueError` with a sentence for the user if the queue has no such quota.
    """
    groups = [_copy_group(group) for group in spec.get("resourceGroups") or ()]
    for (flavor, resource), quantity in quotas.items():
        quota = _find_quota(groups, resource, flavor, new=False)
        if parse_quantity(quota["nominalQuota"]) != parse_quantity(quantity):
            quota["nominalQuota"] = quantity
    return {"resourceGroups": groups} if _differs(spec.get("resourceGroups"), groups) else {}


def _change_rules(edit: QueueEdit) -> dict[str, Any]:
    """Return the fields of a ClusterQueue's spec that an edit changes, except the quotas."""
    changed: dict[str, Any] = {}
    if edit.cohort is not None:
        changed["cohortName"] = edit.cohort or None
    if edit.strict is not None:
        changed["queueingStrategy"] = STRICT_FIFO if edit.strict else BEST_EFFORT_FIFO
    preemption = {"withinClusterQueue": edit.within, "reclaimWithinCohort": edit.reclaim}
    if given := {name: value for name, value in preemption.items() if value}:
        changed["preemption"] = given
    if edit.weight:
        changed["fairSharing"] = {"weight": edit.weight}
    if edit.by_usage is not None:
        changed["admissionScope"] = {"admissionMode": USAGE_BASED_ADMISSION} if edit.by_usage else None
    return changed


def make_annotations(annotations: Mapping[str, str], edit: QueueEdit) -> dict[str, str | None]:
    """Return the annotations to change; the value None removes an annotation.

    Raises `ValueError` with a sentence for the user.
    """
    changed: dict[str, str | None] = {}
    users = edit.users if edit.users is not None else read_users(annotations)
    if edit.everybody:
        changed[QUEUE_USERS] = None
    elif users is not None:
        changed[QUEUE_USERS] = write_users((users | edit.added) - edit.removed)
    elif edit.added or edit.removed:
        raise ValueError("the queue is for everybody; say who alone may use it with --users")
    if edit.limits:
        limits = _read_limit_texts(annotations.get(USER_LIMITS, "")) | dict(edit.limits)
        kept = [f"{name}={most}" for name, most in limits.items() if most != UNLIMITED]
        changed[USER_LIMITS] = ",".join(kept) or None
    if edit.without_team is not None:
        changed[WITHOUT_TEAM] = "true" if edit.without_team else "false"
    return {name: text for name, text in changed.items() if annotations.get(name) != text}


def _read_limit_texts(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def describe_excess(queue: Spec) -> list[str]:
    """Return a sentence for each quota of an edited ClusterQueue that is lower than what its jobs use.

    The result is empty for a queue in a Cohort, because the Cohort may lend the missing quota.
    """
    spec, status = queue["spec"], queue.get("status") or {}
    if spec.get("cohortName"):
        return []
    used = {
        (flavor["name"], one["name"]): one.get("total", "0")
        for flavor in status.get("flavorsReservation") or ()
        for one in flavor.get("resources") or ()
    }
    quotas = [
        (flavor["name"], one["name"], one["nominalQuota"])
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for one in flavor["resources"]
    ]
    return [
        f"jobs use {total} {resource}, and the quota is {quota} now: they continue, "
        "and no further job starts until they use less"
        for flavor, resource, quota in quotas
        if parse_quantity(total := used.get((flavor, resource), "0")) > parse_quantity(quota)
    ]


def _differs(live: Any, desired: Any) -> bool:
    if isinstance(desired, dict):
        return any((live or {}).get(name) != value for name, value in desired.items())
    return bool((live or None) != desired)


def _copy_group(group: Spec) -> dict[str, Any]:
    flavors = [
        {**flavor, "resources": [dict(one) for one in flavor.get("resources") or ()]}
        for flavor in group.get("flavors") or ()
    ]
    return {**group, "coveredResources": list(group.get("coveredResources") or ()), "flavors": flavors}


def _find_quota(groups: list[dict[str, Any]], resource: str, flavor: str, *, new: bool) -> dict[str, Any]:
    """Return the mutable quota entry of a resource in a flavor; `flavor` "" means the queue's only flavor.

    new: whether to add the resource if the queue lacks it.

    Raises `ValueError` with a sentence for the user if no entry matches, or several do.
    """
    group = next((one for one in groups if resource in one["coveredResources"]), None)
    if group is None:
        if not new:
            raise ValueError(
                f"a limit of {resource} needs a quota of that resource, which may be 0: --quota {resource}=0"
            )
        group = _add_resource(groups, resource, flavor)
    names = [one["name"] for one in group["flavors"]]
    if not flavor and len(names) > 1:
        raise ValueError(f"{resource} has quotas of the flavors {', '.join(names)}: name one with --flavor")
    flavor_quotas = next((one for one in group["flavors"] if one["name"] == (flavor or names[0])), None)
    if flavor_quotas is None:
        raise ValueError(f"{resource} has no quota of the flavor {flavor}; there is: {', '.join(names)}")
    quota: dict[str, Any] = next(one for one in flavor_quotas["resources"] if one["name"] == resource)
    return quota


def _add_resource(groups: list[dict[str, Any]], resource: str, flavor: str) -> dict[str, Any]:
    """Add a resource with a quota of 0 to all flavors of the resource group that contains the flavor; return the group.

    Raises `ValueError` with a sentence for the user unless exactly one group matches.
    """
    fitting = [one for one in groups if not flavor or flavor in [had["name"] for had in one["flavors"]]]
    if len(fitting) != 1:
        names = ", ".join(one["name"] for group in groups for one in group["flavors"])
        raise ValueError(f"{resource} has no quota so far; name its flavor with --flavor: {names or 'there is none'}")
    [group] = fitting
    group["coveredResources"].append(resource)
    for one in group["flavors"]:
        one["resources"].append({"name": resource, "nominalQuota": "0"})
    return group
