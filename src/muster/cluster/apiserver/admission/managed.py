"""Run the admission of objects that queue, which webhooks do on a real cluster.

`controllers.integrations.admission` and `api.managed` make the decisions in both cases. The plugins here read other
objects in their newest state, committed or not. Expensive checks run only for objects that may queue.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME, JOBSET_UID
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import (
    POD_SET_LABEL,
    PREBUILT_WORKLOAD_NAME_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed import jobs, pods
from muster.api.managed.ancestry import NestingTooDeepError
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.meta import OwnerReference, Struct
from muster.api.status import bad_request, denied
from muster.cluster.apiserver.admission.chain import Plugin, Remark, WriteAttempt
from muster.cluster.apiserver.objects.shared import SharedObjects
from muster.cluster.store import Key, Store
from muster.controllers.integrations import admission
from muster.controllers.integrations.admission import (
    name_of_workload,
    read_or_none,
    role_waits_for_quota,
    waits_for_quota,
)
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.serving import admission as serving
from muster.controllers.integrations.serving.kinds import Serving, kinds_of, select_serving
from muster.controllers.integrations.serving.pods import join_and_read
from muster.controllers.integrations.surroundings import FoundSurroundings, kinds_above, settings_of
from muster.controllers.integrations.table import list_enabled, list_external
from muster.jobs.job.quota import add_gate
from muster.queueing.jobframework.names import workload_name


def make_managed_plugins(
    configuration: Configuration, integrations: Sequence[Integration[Any]], shared: SharedObjects
) -> tuple[Plugin, ...]:
    """Return the plugins for jobs that queue, as configured. They run after the server's own plugins.

    shared: the server's decoded objects. The plugins find a pod's job there, because many pods of a job are created in
    a row.
    """
    ours, settings = list_enabled(integrations, configuration), settings_of(configuration)
    serve = select_serving(configuration)
    find_in = partial(_InStore, shared=shared)
    above = kinds_above([*(one.kind for one in ours), *kinds_of(serve)])

    def around(store: Store) -> Surroundings:
        return FoundSurroundings(above, find_in(store))

    plugins: list[Plugin] = [ManagedJobs(ours, around, find_in, settings)] if ours else []
    if JOB in [one.kind for one in ours]:
        plugins.append(partial(gate_pods_of_jobs, shared=shared))
    if JOB_SET in [one.kind for one in ours]:
        plugins.append(partial(gate_pods_of_jobsets, shared=shared))
    if "pod" in configuration.integrations.frameworks:
        plugins.append(ManagedPods(around, find_in, settings))
    if serve:
        plugins.append(ManagedServing(serve, around, settings))
    return tuple(plugins)


def require_readable(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> Plugin:
    """Return the plugin that refuses jobs which their integration cannot decode.

    A CustomResourceDefinition may allow such jobs, and one of them would make the whole list of its kind unreadable.
    """
    kinds = {one.kind.resource: one.kind for one in list_enabled(integrations, configuration)}

    def judge(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
        kind = kinds.get(attempt.resource.key)
        if kind is None or attempt.operation == "DELETE" or attempt.resource.kind.type is kind.type:
            return
        try:
            kind.typed(attempt.document)
        except msgspec.ValidationError as error:
            message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
            raise bad_request(message) from None

    return judge


def warn_of_unread_queue(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> Remark:
    """Return the check that warns if an object names a queue although no integration handles its kind.

    Such an object runs without quota.
    """
    followed, from_outside = (
        {one.kind.resource for one in list_enabled(integrations, configuration)},
        list_external(configuration),
    )
    followed |= {one.kind.resource for one in select_serving(configuration)}
    if "pod" in configuration.integrations.frameworks:
        followed.add(POD.resource)

    def remark(attempt: WriteAttempt) -> str:
        kind = attempt.resource.kind
        if attempt.subresource or attempt.operation == "DELETE":
            return ""
        if attempt.resource.key in followed or (kind.group, kind.version, kind.kind) in from_outside:
            return ""
        return admission.warn_of_unread_queue(
            kind.kind, _read_queue_name(attempt.document), _read_queue_name(attempt.old or {})
        )

    return remark


def warn_of_queue_in_part(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> Remark:
    """Return the check that warns if a template in a JobSet names a queue, because the JobSet queues as a whole."""
    whole = any(one.kind == JOB_SET for one in list_enabled(integrations, configuration))

    def remark(attempt: WriteAttempt) -> str:
        is_new = attempt.operation == "CREATE" and not attempt.subresource
        if not whole or not is_new or attempt.resource.key != JOB_SET.resource:
            return ""
        roles = attempt.document.get("spec", {}).get("replicatedJobs") or ()
        named = (number for number, role in enumerate(roles) if _read_queue_name(role.get("template") or {}))
        if (number := next(named, None)) is None:
            return ""
        path = f"spec.replicatedJobs[{number}].template.metadata.labels[{QUEUE_NAME_LABEL}]"
        return f"{path}: means nothing, a JobSet queues as a whole by its own label"

    return remark


def _read_queue_name(document: Mapping[str, Any]) -> Any:
    return (document.get("metadata", {}).get("labels") or {}).get(QUEUE_NAME_LABEL)


T = TypeVar("T")


class _InStore:
    """A `Find` that reads objects from a store in their newest state."""

    def __init__(self, store: Store, shared: SharedObjects) -> None:
        self._store = store
        self._shared = shared

    def __call__(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Return the object; None if it does not exist."""
        entry = self._store.latest(Key(kind.resource, namespace, name))
        return self._shared.decode(kind, self._shared.read_body(entry)) if entry is not None else None


# Returns the surroundings of objects in a store, which the rules of admission read.
Around = Callable[[Store], Surroundings]

FindIn = Callable[[Store], _InStore]


class ManagedJobs:
    """The plugin for jobs that name a queue, or that the server assigns to one."""

    def __init__(
        self, integrations: Iterable[Integration[Any]], around: Around, find_in: FindIn, settings: Settings
    ) -> None:
        self._integrations = {one.kind.resource: one for one in integrations}
        self._around = around
        self._find_in = find_in
        self._settings = settings

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:
        """Set a job's defaults for queueing in place; restore fields that the engine set and an update omits.

        Raises `ApiError` if the job breaks a rule.
        """
        integration = self._integrations.get(attempt.resource.key)
        if integration is None or attempt.subresource or attempt.operation == "DELETE":
            return
        kind, around, document = integration.kind, self._around(store), attempt.document
        new, old = (read_or_none(one, kind) if one is not None else None for one in (document, attempt.old))
        if new is None or (old is None and attempt.operation == "UPDATE"):
            return
        if old is None:
            try:
                complete = admission.complete_new_job(
                    integration, document, new, attempt.namespace, around, self._settings
                )
            except NestingTooDeepError as error:
                raise attempt.make_refusal(str(error)) from None
        else:
            find = self._find_in(store)
            complete = admission.complete_changed_job(
                integration, document, new, old, lambda name: find(WORKLOAD, attempt.namespace, name)
            )
        if complete is not document:
            document.update(complete)
            # The rules apply to the queue that the job was given, too.
            new = read_or_none(document, kind) or new
        if errors := admission.find_errors(integration, new, old, around):
            raise denied(kind.kind, errors)


class ManagedPods:
    """The plugin for plain pods that name a queue, and for groups of pods."""

    def __init__(self, around: Around, find_in: FindIn, settings: Settings) -> None:
        self._around = around
        self._find_in = find_in
        self._settings = settings

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:
        """Complete a new pod in place (a pod that queues gets a scheduling gate), and check new and changed pods.

        Raises `ApiError` if the pod breaks a rule.
        """
        if attempt.resource.key != POD.resource or attempt.subresource or attempt.operation == "DELETE":
            return
        if not (self._settings.without_queue or pods.controls_queueing(attempt.document["metadata"])):
            return
        around = self._around(store)
        new, old = read_or_none(attempt.document, POD), read_or_none(attempt.old or {}, POD)
        if new is None or old is None:
            return
        if attempt.operation == "CREATE":
            new = join_and_read(attempt.document, new, attempt.namespace, self._find_in(store), self._settings)
            try:
                pods.complete(attempt.document, new, attempt.namespace, around, self._settings)
            except NestingTooDeepError as error:
                raise attempt.make_refusal(str(error)) from None
            errors = pods.validate_create(new)
        else:
            errors = pods.validate_update(new, old, around)
        if errors:
            raise denied(POD.kind, errors)


class ManagedServing:
    """The plugin for Deployments and similar kinds, whose pods queue."""

    def __init__(self, kinds: Iterable[Serving], around: Around, settings: Settings) -> None:
        self._kinds = {one.kind.resource: one for one in kinds}
        self._around = around
        self._settings = settings

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:
        """Add the queue's label and related fields to the object's pod templates, in place, so that the pods queue.

        Raises `ApiError` if the object breaks a rule.
        """
        one = self._kinds.get(attempt.resource.key)
        if one is None or attempt.subresource or attempt.operation == "DELETE":
            return
        around, namespace = self._around(store), attempt.namespace
        new = read_or_none(attempt.document, one.kind)
        old = read_or_none(attempt.old, one.kind) if attempt.old is not None else None
        if new is None or (old is None and attempt.operation == "UPDATE"):
            return
        try:
            complete = serving.complete_templates(one, attempt.document, new, old, namespace, around, self._settings)
        except NestingTooDeepError as error:
            raise attempt.make_refusal(str(error)) from None
        if complete is not attempt.document:
            attempt.document.update(complete)
            new = read_or_none(attempt.document, one.kind) or new
        if errors := serving.find_errors(one, new, old, namespace, around):
            raise denied(one.kind.kind, errors)


_PREBUILT = PREBUILT_WORKLOAD_NAME_LABEL.encode()


class _HeadMeta(Struct):
    owner_references: tuple[OwnerReference, ...] = ()
    labels: Mapping[str, str] = {}


class _Head(Struct):
    """The part of a pod that names its Job, and is decoded first."""

    metadata: _HeadMeta = _HeadMeta()


_POD_HEAD = POD.seen_as(_Head)


def gate_pods_of_jobs(attempt: WriteAttempt, store: Store, shared: SharedObjects) -> None:
    """Add a scheduling gate to a new pod of a Job with a Workload, unless quota has been granted for the pod.

    Each pod of an elastic Job is gated so. Any other Job is suspended until it is admitted, so it has no pods before
    that unless another program resumes it. Such pods stay gated until the Job is admitted, and use no quota before.
    """
    if attempt.resource.key != "pods" or attempt.operation != "CREATE" or attempt.subresource:
        return
    head = read_or_none(attempt.document, _POD_HEAD)
    owners = head.metadata.owner_references if head is not None else ()
    owner = next((owner for owner in owners if owner.controller), None)
    if head is None or owner is None or not JOB.is_of(owner):
        return
    entry = store.latest(Key(JOB.resource, attempt.namespace, owner.name))
    if entry is None or entry.header.uid != owner.uid:
        return
    own = Key(WORKLOAD.resource, attempt.namespace, workload_name(JOB.kind, JOB.group, owner.name, owner.uid))
    workload_entry = store.latest(own)
    if workload_entry is None and _PREBUILT not in entry.body and POD_SET_LABEL not in head.metadata.labels:
        return  # the Job does not queue; this check spares decoding it
    job, pod = shared.decode(JOB, entry.body), read_or_none(attempt.document, POD)
    if pod is None:
        return
    if prebuilt := jobs.prebuilt_name(job.metadata):
        workload_entry = store.latest(own._replace(name=prebuilt))
    if waits_for_quota(pod, job, shared.decode(WORKLOAD, workload_entry.body) if workload_entry is not None else None):
        add_gate(attempt.document["spec"])


def gate_pods_of_jobsets(attempt: WriteAttempt, store: Store, shared: SharedObjects) -> None:
    """Add a scheduling gate to a new pod of a JobSet that queues, if the quota of the pod's role does not suffice."""
    if attempt.resource.key != "pods" or attempt.operation != "CREATE" or attempt.subresource:
        return
    labels = attempt.document["metadata"].get("labels") or {}
    name = str(labels.get(JOBSET_NAME, ""))
    entry = store.latest(Key(JOB_SET.resource, attempt.namespace, name)) if name else None
    if entry is None or entry.header.uid != labels.get(JOBSET_UID) or QUEUE_NAME_LABEL not in entry.header.labels:
        return
    jobset = shared.decode(JOB_SET, entry.body)
    workload = _InStore(store, shared)(WORKLOAD, attempt.namespace, name_of_workload(JOB_SET, jobset.metadata))
    if role_waits_for_quota(labels, jobset, workload):
        add_gate(attempt.document["spec"])
