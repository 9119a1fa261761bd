"""The rules of Volcano's Jobs: the rules of upstream's webhook, and Muster's own.

Muster's own rules refuse a Job that could never run, because no pod can be created from a template, a name of a pod is
no host name, or tasks wait for each other.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from muster.api.core import PodTemplateSpec
from muster.api.defaults.pod import default_pod_template
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    not_found,
    required,
    too_long,
    too_many,
    unsupported,
)
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.pods.podspec import validate_pod_template
from muster.api.values.durations import DurationError, parse
from muster.api.volcano import (
    ACTIONS,
    ANY_EVENT,
    EVENTS,
    PLUGINS,
    POD_PENDING,
    PYTORCH,
    SSH,
    SVC,
    Job,
    LifecyclePolicy,
    TaskSpec,
    VolumeSpec,
)
from muster.api.volcano.plugins import ARGUMENTS, ArgumentError, read_arguments

# The controller creates pods one by one, and one ConfigMap has all hosts of a Job.
MAX_PODS = 10_000
# `svc` gives each pod two variables for each task.
MAX_TASKS = 100
_LONGEST_POD_NAME = 253
_LONGEST_VARIABLE = 128 * 1024 - 256  # Linux's limit, with room for the name
_LARGEST_CONFIG_MAP = 1_000_000
_CHANGEABLE = "only minAvailable, priorityClassName, and replicas and minAvailable of tasks can change"


def validate_create(job: Job) -> list[FieldError]:
    """Return the errors in a new Job, with its defaults."""
    return [*new_metadata(job.metadata, names.dns_subdomain, custom=True), *_validate_labels(job), *_validate_job(job)]


def validate_update(new: Job, old: Job) -> list[FieldError]:
    """Return the errors in a change of a Job's metadata or spec."""
    meta = list(changed_metadata(new.metadata, old.metadata, custom=True))
    if new.spec == old.spec:
        return meta
    if _reset_changeable_fields(new) != _reset_changeable_fields(old):
        return [*meta, forbidden("spec", _CHANGEABLE)]
    return [*meta, *_validate_job(new)]


def validate_status_update(new: Job, old: Job) -> list[FieldError]:
    """Return the errors in the metadata of a status update.

    The rest is not checked, because the server trusts the controller.
    """
    return list(changed_metadata(new.metadata, old.metadata, custom=True))


def _validate_labels(job: Job) -> Errors:
    """Yield the errors in the values that become labels of pods."""
    yield from make_errors("metadata.name", job.metadata.name, names.label_value(job.metadata.name))
    yield from make_errors("spec.queue", job.spec.queue, names.label_value(job.spec.queue))


def _reset_changeable_fields(job: Job) -> Any:
    """Return the spec with the changeable fields reset."""
    replace = msgspec.structs.replace
    tasks = tuple(replace(task, replicas=0, min_available=None) for task in job.spec.tasks)
    return replace(job.spec, min_available=0, priority_class_name="", tasks=tasks)


def _validate_job(job: Job) -> Errors:
    spec = job.spec
    if not spec.tasks:
        yield required("spec.tasks", "must have at least one task")
    if len(spec.tasks) > MAX_TASKS:
        yield too_many("spec.tasks", len(spec.tasks), MAX_TASKS)
        return  # one error for all tasks suffices
    seen = set[str]()
    for i, task in enumerate(spec.tasks):
        if task.name in seen:
            yield duplicate(f"spec.tasks[{i}].name", task.name)
        seen.add(task.name)
        yield from _validate_task(f"spec.tasks[{i}]", job, task)
    yield from _validate_sizes(job)
    yield from _validate_dependencies(job)
    yield from _validate_policies("spec.policies", spec.policies)
    yield from _validate_plugins(job)
    yield from _validate_volumes(spec.volumes)


def _validate_sizes(job: Job) -> Errors:
    total = sum(task.replicas for task in job.spec.tasks)
    if job.spec.min_available > total:
        message = "must not be greater than the sum of the tasks' replicas"
        yield invalid("spec.minAvailable", job.spec.min_available, message)
    if total > MAX_PODS:
        yield invalid("spec.tasks", total, f"must have at most {MAX_PODS} replicas together")


def _validate_task(path: str, job: Job, task: TaskSpec) -> Errors:
    if task.min_available is not None and task.min_available > task.replicas:
        yield invalid(f"{path}.minAvailable", task.min_available, "must not be greater than replicas")
    yield from _validate_pod_name(path, job, task)
    yield from _validate_policies(f"{path}.policies", task.policies)
    if task.partition_policy is not None:
        yield forbidden(f"{path}.partitionPolicy", "this cluster does not divide tasks into parts")
    yield from validate_pod_template(f"{path}.template", _default_template(task.template))


def _validate_pod_name(path: str, job: Job, task: TaskSpec) -> Errors:
    """Yield the errors in the name of the last pod.

    With `svc`, the name is a host name, and the name of the Job is the name of a Service.
    """
    name = f"{job.metadata.name}-{task.name}-{max(task.replicas - 1, 0)}"
    if SVC not in job.spec.plugins or task.template.spec.hostname:
        if len(name) > _LONGEST_POD_NAME:
            yield too_long(f"{path}.name", _LONGEST_POD_NAME)
        return
    for message in names.dns_label(name):
        yield invalid(f"{path}.name", task.name, f"will not allow pod creation to succeed with {name!r}: {message}")


def _default_template(template: PodTemplateSpec) -> PodTemplateSpec:
    document = msgspec.json.decode(msgspec.json.encode(template))
    default_pod_template(document)
    return msgspec.convert(document, PodTemplateSpec)


def _validate_dependencies(job: Job) -> Errors:
    tasks = {task.name: task for task in job.spec.tasks}
    for i, task in enumerate(job.spec.tasks):
        for k, name in enumerate(task.depends_on.name if task.depends_on is not None else ()):
            if name not in tasks:
                yield not_found(f"spec.tasks[{i}].dependsOn.name[{k}]", name)
    if circle := _find_circle(job):
        yield invalid("spec.tasks", ", ".join(circle), "must not depend on each other in a circle")


def _find_circle(job: Job) -> list[str]:
    """Return the tasks that are in a circle of dependencies or depend on one."""
    waits = {task.name: set(task.depends_on.name) if task.depends_on else set[str]() for task in job.spec.tasks}
    while free := [name for name, names_ in waits.items() if not names_ & waits.keys()]:
        for name in free:
            del waits[name]
    return sorted(waits)


def _validate_policies(path: str, policies: Sequence[LifecyclePolicy]) -> Errors:
    events, codes = set[str](), set[int]()
    for i, policy in enumerate(policies):
        where = f"{path}[{i}]"
        named = (*policy.events, *((policy.event,) if policy.event else ()))
        if policy.action not in ACTIONS:
            yield unsupported(f"{where}.action", policy.action, ACTIONS)
        if bool(named) == (policy.exit_code is not None):
            yield invalid(where, policy, "must have either events or exitCode")
        for event in dict.fromkeys(named):
            if event not in EVENTS:
                yield unsupported(f"{where}.event", event, EVENTS)
            elif event in events:
                yield duplicate(f"{where}.event", event)
            events.add(event)
        if policy.exit_code is not None:
            if policy.exit_code == 0:
                yield invalid(f"{where}.exitCode", 0, "must not be 0")
            elif policy.exit_code in codes:
                yield duplicate(f"{where}.exitCode", policy.exit_code)
            codes.add(policy.exit_code)
        yield from _validate_timeout(where, policy, named)
    if ANY_EVENT in events and len(events) > 1:
        yield invalid(path, ANY_EVENT, "must be the only event where it is used")


def _validate_timeout(path: str, policy: LifecyclePolicy, named: Sequence[str]) -> Errors:
    if POD_PENDING in named and not policy.timeout:
        yield required(f"{path}.timeout", "PodPending is no reason to act before a time-out")
    if not policy.timeout:
        return
    try:
        duration = parse(policy.timeout)
    except DurationError as error:
        yield invalid(f"{path}.timeout", policy.timeout, str(error))
        return
    if duration < 0:
        yield invalid(f"{path}.timeout", policy.timeout, "must not be negative")
    if set(named) != {POD_PENDING}:
        yield forbidden(f"{path}.timeout", "this cluster waits before it acts for the event PodPending only")


def _validate_plugins(job: Job) -> Errors:
    for plugin, arguments in job.spec.plugins.items():
        if plugin not in (*PLUGINS, SSH):
            yield unsupported("spec.plugins", plugin, (*PLUGINS, SSH))
        elif plugin in ARGUMENTS:
            try:
                given = read_arguments(plugin, arguments)
            except ArgumentError as error:
                yield invalid(f"spec.plugins[{plugin}]", list(arguments), str(error))
                continue
            if plugin == PYTORCH and given.get("master", "master") not in {task.name for task in job.spec.tasks}:
                yield not_found(f"spec.plugins[{plugin}]", given.get("master", "master"), "is the task of the master")
    if SVC in job.spec.plugins:
        yield from _validate_hosts(job)
        yield from make_errors("metadata.name", job.metadata.name, names.dns_label(job.metadata.name))


def _validate_hosts(job: Job) -> Errors:
    """Check that the hosts which `svc` publishes fit.

    All hosts must fit into a ConfigMap, and the hosts of a task into a variable of a process.
    """
    meta, total = job.metadata, 0
    for i, task in enumerate(job.spec.tasks):
        size = task.replicas * len(f"{meta.name}-{task.name}-{task.replicas}.{meta.name},")
        total += 2 * size
        if size > _LONGEST_VARIABLE and "--inject-hosts-env=false" not in job.spec.plugins[SVC]:
            message = f"makes a variable of {size} bytes, of at most {_LONGEST_VARIABLE}"
            yield invalid(f"spec.tasks[{i}].replicas", task.replicas, f"{message}: use --inject-hosts-env=false of svc")
    if total > _LARGEST_CONFIG_MAP:
        yield invalid("spec.tasks", total, f"must have host names of at most {_LARGEST_CONFIG_MAP} bytes with svc")


def _validate_volumes(volumes: Sequence[VolumeSpec]) -> Errors:
    paths = set[str]()
    for i, volume in enumerate(volumes):
        where = f"spec.volumes[{i}]"
        if volume.mount_path in paths:
            yield duplicate(f"{where}.mountPath", volume.mount_path)
        paths.add(volume.mount_path)
        if bool(volume.volume_claim_name) == (volume.volume_claim is not None):
            yield invalid(where, volume, "must have either volumeClaimName or volumeClaim")
        if volume.volume_claim_name:
            messages = names.dns_subdomain(volume.volume_claim_name)
            yield from make_errors(f"{where}.volumeClaimName", volume.volume_claim_name, messages)


def list_warnings(job: Job, schedulers: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each feature that the Job requests and Muster does not have.

    The rules of templates check the scheduler that a task's template names.

    schedulers: the names of the schedulers of this cluster.
    """
    spec = job.spec
    if SSH in spec.plugins:
        yield "spec.plugins: this cluster gives pods no keys for ssh, and runs the Job without the plugin"
    if spec.queue != "default":
        yield (
            f"spec.queue: {spec.queue!r} is kept and gives the Job no quota: this cluster has no queues of Volcano's"
        )
    if spec.network_topology is not None:
        yield "spec.networkTopology: this cluster has no HyperNodes, and places the pods without it"
    if spec.scheduler_name not in schedulers and not all(task.template.spec.scheduler_name for task in spec.tasks):
        name = spec.scheduler_name
        yield f"spec.schedulerName: no scheduler here is called {name!r}: the pods wait until one is"
    for i, task in enumerate(spec.tasks):
        if task.topology_policy not in ("", "none"):
            yield f"spec.tasks[{i}].topologyPolicy: this cluster places the pods without it"
