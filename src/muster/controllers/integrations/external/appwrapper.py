"""Queue AppWrappers: they contain whole objects, and their own controller injects fields into the pods.

An AppWrapper names the paths of pod templates in its objects, or contains kinds that its controller knows. Injected
values are stored beside an object, in `podSetInfos`.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.core import POD, PodTemplateSpec
from muster.api.core.container import Container
from muster.api.core.pod import PodSpec
from muster.api.groups.apps import DEPLOYMENT, STATEFUL_SET
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOB_INDEX
from muster.api.kueue import MOST_POD_SETS, PodSet
from muster.api.members import mapping_at, value_at
from muster.api.validation.fields import Errors, too_many
from muster.controllers.integrations.external import statusreaders
from muster.controllers.integrations.external.documents import (
    ExternalJob,
    Json,
    Path,
    count_at,
    list_at,
    make_pointer,
    template_at,
    text_at,
    text_of_path,
)
from muster.controllers.integrations.external.integration import ExternalIntegration
from muster.controllers.integrations.external.kinds import PYTORCH_JOB, RAY_CLUSTER, RAY_JOB, kind_of
from muster.controllers.integrations.external.podsets import REPLICA_INDEX, Place
from muster.controllers.integrations.external.shape import Shape
from muster.controllers.integrations.framework import Step, UnreadableJobError
from muster.queueing.jobframework.observedjob import PodSetInfo

# A step of an AppWrapper's path: `.spec`, `[0]`.
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,6})\]")

# The podset annotations that name the pod label with a pod's rank.
_INDEX_LABEL: Final = "workload.codeflare.dev.appwrapper/tas-pod-index-label"


class _Part(msgspec.Struct, frozen=True):
    """Equal pods in a contained object: the path of the template, the count, and the pod label with the rank."""

    path: Path
    count: int
    ranked_by: str | None = None
    groups: tuple[str, int] | None = None


class AppWrapperIntegration(ExternalIntegration):
    """The integration of AppWrappers. The objects in an AppWrapper have no Workload of their own."""

    def __init__(self) -> None:
        super().__init__(APP_WRAPPER)

    def start(self, job: ExternalJob, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the one write that resumes the AppWrapper and stores the injected values beside each object in it."""
        beside: dict[int, list[Json]] = {}
        for place, info in zip(self.places(job), infos, strict=True):
            beside.setdefault(_read_component_number(place), []).append(_format_info(info))
        edits = [
            {"op": "add", "path": make_pointer(("spec", "components", number, "podSetInfos")), "value": value}
            for number, value in beside.items()
        ]
        return [Step(operations=(*edits, {"op": "add", "path": make_pointer(self.shape.suspend), "value": False}))]

    def restore(self, job: ExternalJob, original: Sequence[PodSet]) -> Sequence[Step]:  # noqa: ARG002
        """Return the write that removes the injected values from beside each contained object."""
        edits = tuple(
            {"op": "remove", "path": make_pointer(("spec", "components", number, "podSetInfos"))}
            for number, component in enumerate(list_at(job.spec, "components"))
            if "podSetInfos" in mapping_at(component)
        )
        return [Step(operations=edits)] if edits else []

    def keeping(
        self,
        new: ExternalJob,
        old: ExternalJob,
        original: Sequence[PodSet],  # noqa: ARG002  (what is injected is kept apart)
    ) -> Sequence[dict[str, Any]]:
        """Return the patch that restores the injected values of each component that an update omits.

        The patch is empty if the update changes a contained object.
        """
        now, before = list_at(new.spec, "components"), list_at(old.spec, "components")
        if [mapping_at(one, "template") for one in now] != [mapping_at(one, "template") for one in before]:
            return ()
        return [
            {
                "op": "add",
                "path": make_pointer(("spec", "components", number, "podSetInfos")),
                "value": one["podSetInfos"],
            }
            for number, one in enumerate(before)
            if "podSetInfos" in mapping_at(one) and "podSetInfos" not in mapping_at(now[number])
        ]


def _read_component_number(place: Place) -> int:
    number = place.path[2]
    assert isinstance(number, int), "spec.components is a list"
    return number


def component_places(job: ExternalJob) -> Iterator[Place]:
    """Yield the podsets of all objects in an AppWrapper, named `wrapper-0`, `wrapper-1`.

    Raises `UnreadableJobError`.
    """
    total = 0
    for number, component in enumerate(list_at(job.spec, "components")):
        at: Path = ("spec", "components", number)
        for position, part in enumerate(
            _read_declared(component, at) or _infer_parts(mapping_at(component, "template"))
        ):
            path = (*at, *part.path)
            template = _as_wrapped(template_at({"spec": job.spec}, path))
            template = _add_stored_labels(template, value_at(component, ("podSetInfos", position)))
            name = f"{job.metadata.name}-{total}".lower()
            yield Place(name, part.count, path, template, part.ranked_by, part.groups)
            total += 1


def _read_declared(component: Any, at: Path) -> list[_Part]:
    """Return the podsets that the component declares."""
    podsets = []
    for number, one in enumerate(list_at(component, "podSets")):
        count = count_at(one, "replicas")
        podsets.append(
            _Part(_parse_path(text_at(one, "path"), (*at, "podSets", number, "path")), count, _get_ranks(one))
        )
    return podsets


def _get_ranks(declared: Any) -> str | None:
    return text_at(declared, "annotations", _INDEX_LABEL) or None


def _parse_path(text: str, at: Path) -> Path:
    """Parse a path such as `template.spec.template`. Raises `UnreadableJobError`."""
    rest = text.removeprefix("template")
    steps = [int(index) if index else key for key, index in _STEP.findall(rest)]
    if rest == text or "".join(match.group() for match in _STEP.finditer(rest)) != rest:
        raise UnreadableJobError(text_of_path(at), f"must be a path like template.spec.template, not {text!r}")
    return ("template", *steps)


# Kinds that an AppWrapper's controller knows.


def _infer_parts(wrapped: Json) -> list[_Part]:
    """Return the podsets of an object of a known kind; none for other kinds."""
    kind = (text_at(wrapped, "apiVersion"), text_at(wrapped, "kind"))
    spec: Path = ("template", "spec")
    if kind == (POD.api_version, POD.kind):
        return [_Part(("template",), 1)]
    if kind in ((DEPLOYMENT.api_version, DEPLOYMENT.kind), (STATEFUL_SET.api_version, STATEFUL_SET.kind)):
        return [_Part((*spec, "template"), count_at(wrapped, "spec", "replicas"))]
    if kind == (JOB.api_version, JOB.kind):
        return [_Part((*spec, "template"), _count_concurrent_pods(wrapped), COMPLETION_INDEX)]
    if kind == (JOB_SET.api_version, JOB_SET.kind):
        return list(_of_jobset(wrapped))
    for shape in (PYTORCH_JOB, RAY_CLUSTER, RAY_JOB):
        if kind == (shape.kind.api_version, shape.kind.kind):
            ranked_by = REPLICA_INDEX if shape is PYTORCH_JOB else None
            places = shape.places(ExternalJob(spec=mapping_at(wrapped, "spec")))
            return [_Part(("template", *place.path), place.count, ranked_by) for place in places if place.written]
    return []


def _of_jobset(wrapped: Json) -> Iterator[_Part]:
    for number, role in enumerate(list_at(wrapped, "spec", "replicatedJobs")):
        replicas = count_at(role, "replicas")
        path: Path = ("template", "spec", "replicatedJobs", number, "template", "spec", "template")
        count = replicas * _count_concurrent_pods(mapping_at(role, "template"))
        yield _Part(path, count, COMPLETION_INDEX, (JOB_INDEX, replicas))


def _count_concurrent_pods(job: Json) -> int:
    parallelism = count_at(job, "spec", "parallelism")
    return min(parallelism, count_at(job, "spec", "completions", default=parallelism))


# Templates.


def _as_wrapped(template: PodTemplateSpec) -> PodTemplateSpec:
    """Return a contained template with only the fields that Kueue reads, with defaults, as Kueue's Workload has it."""
    spec = template.spec
    alone = PodSpec(
        init_containers=tuple(map(_make_container, spec.init_containers)),
        containers=tuple(map(_make_container, spec.containers)),
        restart_policy=spec.restart_policy or "Always",
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        priority_class_name=spec.priority_class_name,
        overhead=spec.overhead,
        topology_spread_constraints=spec.topology_spread_constraints,
        scheduler_name=spec.scheduler_name or "default-scheduler",
    )
    metadata = type(template.metadata)(labels=template.metadata.labels, annotations=template.metadata.annotations)
    return PodTemplateSpec(metadata=metadata, spec=alone)


def _make_container(one: Container) -> Container:
    latest = "@" not in one.image and (":" not in one.image.rpartition("/")[2] or one.image.endswith(":latest"))
    return Container(
        name=one.name,
        image=one.image,
        command=one.command,
        args=one.args,
        resources=one.resources,
        termination_message_path=one.termination_message_path or "/dev/termination-log",
        termination_message_policy=one.termination_message_policy or "File",
        image_pull_policy=one.image_pull_policy or ("Always" if latest else "IfNotPresent"),
        security_context=one.security_context,
    )


def _add_stored_labels(template: PodTemplateSpec, info: Any) -> PodTemplateSpec:
    """Return the template with the labels that an admission stored for it, which show that it is admitted.

    info: the values that the admission stored beside the object (`podSetInfos`).
    """
    labels = {key: text for key, text in mapping_at(info, "labels").items() if isinstance(text, str)}
    if not labels:
        return template
    metadata = msgspec.structs.replace(template.metadata, labels={**template.metadata.labels, **labels})
    return msgspec.structs.replace(template, metadata=metadata)


def _format_info(info: PodSetInfo) -> Json:
    """Return the injected values in the format of an AppWrapper's `podSetInfos`."""
    injected: Json = {
        "labels": dict(info.labels),
        "annotations": dict(info.annotations),
        "nodeSelector": dict(info.node_selector),
        "tolerations": msgspec.to_builtins(info.tolerations),
        "schedulingGates": [{"name": name} for name in info.gates],
    }
    return {field: value for field, value in injected.items() if value}


def _validate_podset_count(job: ExternalJob) -> Errors:
    """Yield an error if the AppWrapper has more podsets than one Workload can contain.

    Unreadable parts yield no error here, because the reader of the podsets reports them.
    """
    with suppress(UnreadableJobError):
        if (count := len(list(component_places(job)))) > MOST_POD_SETS:
            yield too_many("spec.components", count, MOST_POD_SETS)


APP_WRAPPER: Final = Shape(
    kind=kind_of("workload.codeflare.dev/appwrapper", "appwrappers"),
    name="workload.codeflare.dev/appwrapper",
    controller="workload.codeflare.dev/appwrapper-controller",
    places=component_places,
    end=statusreaders.app_wrapper_end,
    is_active=statusreaders.by_condition("QuotaReserved"),
    is_ready=statusreaders.by_condition("PodsReady"),
    rules=_validate_podset_count,
)
