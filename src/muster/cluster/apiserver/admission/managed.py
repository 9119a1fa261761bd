"""Admission of objects that queue: on a real cluster webhooks do this. `controllers.integrations.admission`
and `api.managed` decide in both.

Plugins look at objects as of the newest write. What costs anything is only looked at for objects that may queue.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.config import Configuration
from muster.api.core import NAMESPACE, POD, Pod
from muster.api.elastic import is_elastic
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME, JOBSET_UID, REPLICATED_JOB_NAME
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    LocalQueue,
    Workload,
)
from muster.api.kueue.names import (
    ADMITTED,
    MULTI_KUEUE_CONTROLLER,
    POD_SET_LABEL,
    PREBUILT_WORKLOAD_NAME_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed import jobs, pods
from muster.api.managed.ancestry import NestingTooDeepError
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.meta import ObjectMeta, OwnerReference, Struct
from muster.api.pods import controller_of
from muster.api.quantity import QuantityError
from muster.api.selectors import EVERYTHING, label_matcher
from muster.api.status import bad_request, denied
from muster.cluster.apiserver.admission.chain import Attempt, Plugin, Remark
from muster.cluster.apiserver.patch import json as jsonpatch
from muster.cluster.apiserver.patch import merge
from muster.cluster.store import Entry, Key, Store
from muster.controllers.integrations import admission
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.table import chosen, outside
from muster.jobs.job.quota import GATE, must_wait
from muster.jobs.job.terms import Terms
from muster.jobs.jobset.quota import by_role
from muster.jobs.jobset.quota import must_wait as must_wait_of_role
from muster.queueing.elastic.growth import granted
from muster.queueing.jobframework.names import workload_name
from muster.runtime.objects import meta_of


def managed_plugins(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> tuple[Plugin, ...]:
    """What the settings ask for, to run after the server's own plugins."""
    ours, settings = chosen(integrations, configuration), _settings(configuration)
    around = partial(StoredSurroundings, {(one.kind.api_version, one.kind.kind): one.kind for one in ours})
    plugins: list[Plugin] = [ManagedJobs(ours, around, settings)] if ours else []
    if JOB in [one.kind for one in ours]:
        plugins.append(pods_of_queued_jobs)
    if JOB_SET in [one.kind for one in ours]:
        plugins.append(pods_of_queued_jobsets)
    if "pod" in configuration.integrations.frameworks:
        plugins.append(ManagedPods(around, settings))
    return tuple(plugins)


def require_readable(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> Plugin:
    """Refuses jobs that their integration cannot read, which a definition may allow: one would hide all of its kind."""
    kinds = {one.kind.resource: one.kind for one in chosen(integrations, configuration)}

    def judge(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (it is a plugin)
        kind = kinds.get(attempt.resource.key)
        if kind is None or attempt.operation == "DELETE" or attempt.resource.kind.type is kind.type:
            return
        try:
            kind.typed(attempt.document)
        except msgspec.ValidationError as error:
            said = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
            raise bad_request(said) from None

    return judge


def queue_of_nobody(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> Remark:
    """Tells who writes a queue's name on an object that nothing makes wait: it runs without quota."""
    followed, from_outside = {one.kind.resource for one in chosen(integrations, configuration)}, outside(configuration)
    if "pod" in configuration.integrations.frameworks:
        followed.add(POD.resource)

    def remark(attempt: Attempt) -> str:
        kind = attempt.resource.kind
        queue = _queue_of(attempt.document)
        if attempt.subresource or not queue or attempt.operation == "DELETE" or queue == _queue_of(attempt.old or {}):
            return ""
        if attempt.resource.key in followed or (kind.group, kind.version, kind.kind) in from_outside:
            return ""
        return f"{QUEUE_NAME_LABEL}: no integration for {kind.kind} is enabled, it does not wait in a queue"

    return remark


def queue_of_a_part(configuration: Configuration, integrations: Sequence[Integration[Any]]) -> Remark:
    """Tells who writes a queue's name in the templates of a JobSet: it queues whole, by its own label."""
    whole = any(one.kind == JOB_SET for one in chosen(integrations, configuration))

    def remark(attempt: Attempt) -> str:
        is_new = attempt.operation == "CREATE" and not attempt.subresource
        if not whole or not is_new or attempt.resource.key != JOB_SET.resource:
            return ""
        roles = attempt.document.get("spec", {}).get("replicatedJobs") or ()
        named = (number for number, role in enumerate(roles) if _queue_of(role.get("template") or {}))
        if (number := next(named, None)) is None:
            return ""
        path = f"spec.replicatedJobs[{number}].template.metadata.labels[{QUEUE_NAME_LABEL}]"
        return f"{path}: means nothing, a JobSet queues as a whole by its own label"

    return remark


def _queue_of(document: Mapping[str, Any]) -> Any:
    return (document.get("metadata", {}).get("labels") or {}).get(QUEUE_NAME_LABEL)


def _settings(configuration: Configuration) -> Settings:
    selector = configuration.managed_jobs_namespace_selector
    return Settings(
        without_queue=configuration.manage_jobs_without_queue_name,
        selects=label_matcher(selector) if selector is not None else EVERYTHING,
        default_priority=configuration.features.enabled("WorkloadPriorityClassDefaulting"),
    )


T = TypeVar("T")


class _Meta(Struct):
    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class StoredSurroundings:
    """`api.managed.Surroundings` in the store. owners: the kinds that may stand above others, by version and kind."""

    owners: Mapping[tuple[str, str], Kind[Any]]
    store: Store

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue."""
        entry = self.store.latest(Key(LOCAL_QUEUE.resource, namespace, name))
        return LOCAL_QUEUE.decode(entry.body) if entry is not None else None

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        entry = self.store.latest(Key(NAMESPACE.resource, "", namespace))
        return entry.header.labels if entry is not None else {}

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """The owner that is meant, if it is of a kind that queues."""
        kind = self.owners.get((reference.api_version, reference.kind))
        entry = self.store.latest(Key(kind.resource, namespace, reference.name)) if kind is not None else None
        return kind.seen_as(_Meta).decode(entry.body).metadata if kind is not None and entry is not None else None

    def has_priority_class(self, name: str) -> bool:
        """Whether there is a WorkloadPriorityClass of that name."""
        return self.store.latest(Key(WORKLOAD_PRIORITY_CLASS.resource, "", name)) is not None

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        """Whether what is admitted by the ClusterQueue runs in another cluster."""
        entry = self.store.latest(Key(CLUSTER_QUEUE.resource, "", cluster_queue))
        strategy = CLUSTER_QUEUE.decode(entry.body).spec.admission_checks_strategy if entry is not None else None
        checks = (self._check(rule.name) for rule in (strategy.admission_checks if strategy is not None else ()))
        kind = ADMISSION_CHECK
        return any(kind.decode(e.body).spec.controller_name == MULTI_KUEUE_CONTROLLER for e in checks if e is not None)

    def _check(self, name: str) -> Entry | None:
        return self.store.latest(Key(ADMISSION_CHECK.resource, "", name))


# What there is beside an object, in a store.
Around = Callable[[Store], Surroundings]


class ManagedJobs:
    """Jobs of all kinds that queue: those that name a queue, or get one."""

    def __init__(self, integrations: Iterable[Integration[Any]], around: Around, settings: Settings) -> None:
        self._integrations = {one.kind.resource: one for one in integrations}
        self._around = around
        self._settings = settings

    def __call__(self, attempt: Attempt, store: Store) -> None:
        """Complete a new job, and refuse what breaks a rule. Raises `ApiError`."""
        integration = self._integrations.get(attempt.resource.key)
        if integration is None or attempt.subresource or attempt.operation == "DELETE":
            return
        kind, around = integration.kind, self._around(store)
        new, old = (_typed(one, kind) if one is not None else None for one in (attempt.document, attempt.old))
        if new is None or (old is None and attempt.operation == "UPDATE"):
            return
        if old is None:
            self._complete(attempt, integration, new, around)
        else:
            if left_out := admission.keeping(meta_of(new), meta_of(old)):
                _merge(attempt, left_out)
            if edits := _left_out(integration, new, old, attempt.namespace, store):
                attempt.document.update(jsonpatch.apply(attempt.document, edits))
            new = _typed(attempt.document, kind) or new
        if errors := admission.errors(integration, new, old, around):
            raise denied(kind.kind, errors)

    def _complete(self, attempt: Attempt, integration: Integration[Any], job: Any, around: Surroundings) -> None:
        try:
            patches = admission.completing(integration, job, attempt.namespace, around, self._settings)
        except NestingTooDeepError as error:
            raise attempt.refused(str(error)) from None
        for patch in patches:
            _merge(attempt, patch)


class ManagedPods:
    """Plain pods that name a queue, and groups of pods."""

    def __init__(self, around: Around, settings: Settings) -> None:
        self._around = around
        self._settings = settings

    def __call__(self, attempt: Attempt, store: Store) -> None:
        """Hold a new pod back, and refuse what breaks a rule. Raises `ApiError`."""
        if attempt.resource.key != POD.resource or attempt.subresource or attempt.operation == "DELETE":
            return
        if not (self._settings.without_queue or pods.says_something(attempt.document["metadata"])):
            return
        around = self._around(store)
        new, old = _typed(attempt.document, POD), _typed(attempt.old or {}, POD)
        if new is None or old is None:
            return
        if attempt.operation == "CREATE":
            self._hold(attempt, new, around)
            errors = pods.validate_create(new)
        else:
            errors = pods.validate_update(new, old, around)
        if errors:
            raise denied(POD.kind, errors)

    def _hold(self, attempt: Attempt, pod: Pod, around: Surroundings) -> None:
        meta = msgspec.structs.replace(pod.metadata, namespace=attempt.namespace)
        try:
            if pods.is_to_be_held(meta, around, self._settings):
                pods.hold(attempt.document)
        except NestingTooDeepError as error:
            raise attempt.refused(str(error)) from None
        except QuantityError:  # validation refuses the pod, and says where
            return


def _left_out(integration: Integration[T], new: T, old: T, namespace: str, store: Store) -> Any:
    """A JSON patch of what of a job that runs was injected, and a change does not have, by what its Workload says."""
    if integration.lacks_injection(old) or not integration.lacks_injection(new):
        return []
    kept = _workload_of(integration.kind, meta_of(old), namespace, store)
    edits = integration.keeping(new, old, kept.spec.pod_sets) if kept is not None else ()
    return msgspec.json.decode(msgspec.json.encode(edits))


_PREBUILT = PREBUILT_WORKLOAD_NAME_LABEL.encode()


def pods_of_queued_jobs(attempt: Attempt, store: Store) -> None:
    """A new pod of a Job that has a Workload waits until quota is granted for it.

    Of an elastic Job that is so for each pod. Any other is suspended until it is admitted; so its pods are only held
    where another program resumes what is suspended here: they stay gated until the Job is started as it has to be, and
    no quota is used that was not given.
    """
    if attempt.resource.key != "pods" or attempt.operation != "CREATE" or attempt.subresource:
        return
    pod = _typed(attempt.document, POD)
    owner = controller_of(pod) if pod is not None else None
    if pod is None or owner is None or not JOB.is_of(owner):
        return
    entry = store.latest(Key(JOB.resource, attempt.namespace, owner.name))
    if entry is None or entry.header.uid != owner.uid:
        return
    own = Key(WORKLOAD.resource, attempt.namespace, workload_name(JOB.kind, JOB.group, owner.name, owner.uid))
    kept = store.latest(own)
    if kept is None and _PREBUILT not in entry.body and POD_SET_LABEL not in pod.metadata.labels:
        return  # it does not queue: most Jobs are told from others without being decoded
    job = JOB.decode(entry.body)
    if prebuilt := jobs.prebuilt_name(job.metadata):
        kept = store.latest(own._replace(name=prebuilt))
    if _is_held(pod, job, WORKLOAD.decode(kept.body) if kept is not None else None):
        attempt.document["spec"].setdefault("schedulingGates", []).append({"name": GATE})


def pods_of_queued_jobsets(attempt: Attempt, store: Store) -> None:
    """A new pod of a JobSet that queues waits while less is granted than its role is to have.

    That is so while a JobSet that has grown waits for more, and where another program resumes what is not admitted.
    """
    if attempt.resource.key != "pods" or attempt.operation != "CREATE" or attempt.subresource:
        return
    labels = attempt.document["metadata"].get("labels") or {}
    name, role = (str(labels.get(key, "")) for key in (JOBSET_NAME, REPLICATED_JOB_NAME))
    entry = store.latest(Key(JOB_SET.resource, attempt.namespace, name)) if name else None
    if entry is None or entry.header.uid != labels.get(JOBSET_UID) or QUEUE_NAME_LABEL not in entry.header.labels:
        return
    jobset = JOB_SET.decode(entry.body)
    known = _workload_of(JOB_SET, jobset.metadata, attempt.namespace, store)
    if known is not None and must_wait_of_role(jobset, role, by_role(jobset, known, granted(known)).get(role, 0)):
        attempt.document["spec"].setdefault("schedulingGates", []).append({"name": GATE})


def _workload_of(kind: Kind[Any], meta: ObjectMeta, namespace: str, store: Store) -> Workload | None:
    """That of a job, whoever has made it."""
    name = jobs.prebuilt_name(meta) or workload_name(kind.kind, kind.group, meta.name, meta.uid)
    entry = store.latest(Key(WORKLOAD.resource, namespace, name))
    return WORKLOAD.decode(entry.body) if entry is not None else None


def _is_held(pod: Pod, job: Job, workload: Workload | None) -> bool:
    """Until it is admitted, and started with what that assigns to it: then its pods have the label of their podset."""
    has_label = POD_SET_LABEL in pod.metadata.labels
    if workload is not None and not (has_label and is_true(workload.status.conditions, ADMITTED)):
        return True
    size = sum(granted(workload).values()) if workload is not None else 0
    return has_label and is_elastic(job.metadata.annotations) and must_wait(pod, Terms.of(job), size)


def _merge(attempt: Attempt, patch: dict[str, Any]) -> None:
    attempt.document.update(merge.apply(attempt.document, patch))


def _typed(document: Mapping[str, Any], kind: Kind[T]) -> T | None:
    """The object, or None for one that validation will refuse."""
    try:
        return kind.typed(document)
    except msgspec.ValidationError:
        return None
