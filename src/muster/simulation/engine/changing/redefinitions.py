"""Compute the definitions of queues and Cohorts after each change of a scenario, with an embedded server.

The server stores each change, so its validation refuses changes that it would refuse in a cluster, and each change is
applied on top of the earlier ones.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, STOP_NONE, ClusterQueue, Cohort, LocalQueue
from muster.api.kueue.quotas import FlavorQuotas, ResourceGroup, ResourceQuota
from muster.api.status import ApiError
from muster.api.validation.resources import validate_amount
from muster.runtime.client import Client
from muster.runtime.objects import merge_patch
from muster.runtime.transport import MERGE_PATCH, Request
from muster.simulation.scenario.changes import list_times
from muster.simulation.scenario.draws import DrawError, parse_seconds
from muster.simulation.scenario.model import ClusterChange, PlannedQuotaChange, QueueStop
from muster.simulation.scenario.reading import Reading

_STRICT = {"fieldValidation": "Strict"}
_STRICT_ERROR = "strict decoding error: "
_KINDS: Mapping[str, Kind[Any]] = {one.kind: one for one in (CLUSTER_QUEUE, COHORT, LOCAL_QUEUE)}
_MANIFEST = ("apiVersion", "kind", "metadata", "spec")
_AMOUNTS = ("nominal_quota", "borrowing_limit", "lending_limit")

Definition: TypeAlias = ClusterQueue | Cohort | LocalQueue


class Redefinition(Struct, frozen=True):
    """A queue or Cohort after a change.

    at: the time of the change, in seconds from the start.
    number: the number of the change.
    """

    at: float
    number: int
    definition: Definition


class _Step(Struct, frozen=True):
    """One write of a change.

    path: the path of the field in the scenario.
    patch: the merge patch; None for a change of quotas.
    """

    at: float
    number: int
    path: str
    kind: Kind[Any]
    namespace: str
    name: str
    patch: Mapping[str, Any] | None


async def write_redefinitions(client: Client, reading: Reading) -> list[Redefinition]:
    """Store all changes of queues and Cohorts in the order in which they happen, and return the results.

    A change that sets what is already set has no result: in a cluster, such a write causes no event.

    Raises:
        ScenarioError: a change is wrong, or the server refuses it.
    """
    steps: list[_Step] = []
    for number, change in enumerate(reading.scenario.spec.changes):
        try:
            steps += _list_steps(number, change, reading.scenario.spec.start)
        except DrawError as error:
            raise reading.source.error(f"spec.changes[{number}]{error.path}", error.why) from None
    written = [await _write(client, reading, step) for step in sorted(steps, key=lambda step: step.at)]
    return [one for one in written if one is not None]


def _list_steps(number: int, change: ClusterChange, start: datetime) -> Iterator[_Step]:
    path = f"spec.changes[{number}]"
    if change.apply is not None:
        kind, meta = _KINDS.get(str(change.apply.get("kind"))), change.apply.get("metadata")
        if kind is None or change.apply.get("apiVersion") != kind.api_version:
            wanted = ", ".join(f"{one.kind} of {one.api_version}" for one in _KINDS.values())
            raise DrawError(".apply", f"is none of {wanted}")
        if (other := next((key for key in change.apply if key not in _MANIFEST), None)) is not None:
            raise DrawError(f".apply.{other}", "has no effect: only metadata and spec change")
        if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
            raise DrawError(".apply.metadata.name", "is needed")
        namespace = str(meta.get("namespace") or "default") if kind.namespaced else ""
        for at in list_times(change, start):
            yield _Step(at, number, f"{path}.apply", kind, namespace, meta["name"], change.apply)
    if change.stop is not None:
        kind, namespace, name = _find_stopped(change.stop)
        release = None if change.stop.lasts is None else parse_seconds(change.stop.lasts)
        for at in list_times(change, start):
            policies = {at: change.stop.policy} | ({} if release is None else {at + release: STOP_NONE})
            for when, policy in policies.items():
                yield _Step(when, number, f"{path}.stop", kind, namespace, name, {"spec": {"stopPolicy": policy}})
    if change.quota is not None:
        kind, name = _find_redefined(change.quota)
        for at in list_times(change, start):
            yield _Step(at, number, f"{path}.quota", kind, "", name, None)


def _find_stopped(stop: QueueStop) -> tuple[Kind[Any], str, str]:
    if bool(stop.cluster_queue) == bool(stop.local_queue):
        raise DrawError(".stop", "exactly one of clusterQueue and localQueue is needed")
    if stop.cluster_queue:
        return CLUSTER_QUEUE, "", stop.cluster_queue
    namespace, _, name = stop.local_queue.rpartition("/")
    return LOCAL_QUEUE, namespace or "default", name


def _find_redefined(quota: PlannedQuotaChange) -> tuple[Kind[Any], str]:
    if bool(quota.cluster_queue) == bool(quota.cohort):
        raise DrawError(".quota", "exactly one of clusterQueue and cohort is needed")
    if not any(getattr(quota, field) for field in _AMOUNTS):
        raise DrawError(".quota", "nominalQuota, borrowingLimit or lendingLimit is needed")
    return (CLUSTER_QUEUE, quota.cluster_queue) if quota.cluster_queue else (COHORT, quota.cohort)


async def _write(client: Client, reading: Reading, step: _Step) -> Redefinition | None:
    """Store one change, and return the result; None if the server did not need to write."""
    try:
        before = await client.find(step.kind, step.name, step.namespace)
    except ApiError as error:  # its name is invalid
        raise reading.source.error(step.path, str(error)) from None
    if before is None and (step.kind != COHORT or step.patch is None):
        name = f"{step.namespace}/{step.name}" if step.namespace else step.name
        raise reading.source.error(step.path, f"no manifest defines the {step.kind.kind} {name}")
    patch = step.patch
    if patch is None:
        assert before is not None, "only a Cohort that is a whole manifest may be new"
        change = reading.scenario.spec.changes[step.number].quota
        assert change is not None, "a change of quotas has no patch"
        try:
            patch = {"spec": merge_patch(_change_quota(before.spec, change), before.spec)}
        except DrawError as error:
            raise reading.source.error(f"{step.path}{error.path}", error.why) from None
    path = step.kind.path(step.namespace)
    request = (
        Request("POST", path, _STRICT, msgspec.json.encode(patch))
        if before is None
        else Request("PATCH", f"{path}/{step.name}", _STRICT, msgspec.json.encode(patch), content_type=MERGE_PATCH)
    )
    try:
        answer = await client.raw(request)
    except ApiError as error:
        why = str(error).rpartition(_STRICT_ERROR)[2]  # before it, the message has the whole object
        raise reading.source.error(step.path, why) from None
    after = msgspec.json.decode(answer.body, type=step.kind.type)
    if before is not None and before.metadata.resource_version == after.metadata.resource_version:
        return None
    return Redefinition(step.at, step.number, after)


def _change_quota(spec: Any, change: PlannedQuotaChange) -> Any:
    """Return the spec of a ClusterQueue or Cohort with changed quotas.

    Raises `DrawError` for an invalid amount, or if not exactly one flavor has the resource.
    """
    for field in _AMOUNTS:
        for resource, amount in getattr(change, field).items():
            shown = msgspec.structs.fields(PlannedQuotaChange)[
                PlannedQuotaChange.__struct_fields__.index(field)
            ].encode_name
            if (wrong := next(validate_amount(resource, resource, str(amount)), None)) is not None:
                raise DrawError(f".{shown}.{resource}", f"{wrong.detail}: {amount}")
            flavor = _find_flavor(spec.resource_groups, resource, change.flavor, f".{shown}.{resource}")
            groups = (_change_group(group, flavor, resource, field, amount) for group in spec.resource_groups)
            spec = replace(spec, resource_groups=tuple(groups))
    return spec


def _find_flavor(groups: tuple[ResourceGroup, ...], resource: str, name: str, path: str) -> str:
    flavors = [one.name for group in groups if resource in group.covered_resources for one in group.flavors]
    if name in flavors or (not name and len(flavors) == 1):
        return name or flavors[0]
    if not flavors or name:
        raise DrawError(path, f"there is no quota of {resource}{f' in the flavor {name}' if name else ''}")
    raise DrawError(path, f"quota.flavor is needed: {resource} has the flavors {', '.join(flavors)}")


def _change_group(group: ResourceGroup, flavor: str, resource: str, field: str, amount: Any) -> ResourceGroup:
    def change_one(quota: ResourceQuota) -> ResourceQuota:
        return replace(quota, **{field: str(amount)}) if quota.name == resource else quota

    def change_all(one: FlavorQuotas) -> FlavorQuotas:
        return replace(one, resources=tuple(map(change_one, one.resources))) if one.name == flavor else one

    return replace(group, flavors=tuple(map(change_all, group.flavors)))
