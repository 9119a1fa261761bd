"""Make the pods of a Job from its template."""

import msgspec

from muster.api.batch import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    JOB,
    TRACKING_FINALIZER,
    Job,
)
from muster.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec
from muster.api.meta import ObjectMeta
from muster.api.ours.interruptions import ATTEMPT_ANNOTATION, INTERRUPTIONS_ANNOTATION
from muster.jobs.job.plan import Creation
from muster.jobs.job.terms import JobTerms
from muster.jobs.job.world import birth_annotations, find_current_world, has_world

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

# kube-apiserver cuts a generateName at this length to add five letters; cutting it earlier keeps the index.
_MAX_PREFIX = 58

_INDEX_ENV = EnvVar(
    name=INDEX_VARIABLE,
    value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{COMPLETION_INDEX}']")),
)


class PodTemplate:
    """A maker of one Job's pods. It computes the common parts once."""

    def __init__(self, job: Job) -> None:
        template = job.spec.template
        self._job_name = job.metadata.name
        self._meta = ObjectMeta(
            generate_name=f"{job.metadata.name}-",
            namespace=job.metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations
            | (birth_annotations(find_current_world(job)) if has_world(job) else {}),
            owner_references=(JOB.refer_to_controller(job.metadata),),
            finalizers=tuple(dict.fromkeys((*template.metadata.finalizers, TRACKING_FINALIZER))),
        )
        self._spec = _add_index_variable(template.spec) if JobTerms.of(job).indexed else template.spec

    def pod(self, creation: Creation) -> Pod:
        """Return a pod to send to the API server, which appends a random suffix to its `generateName`."""
        if creation.index is None:
            return Pod(metadata=self._meta, spec=self._spec)
        index = str(creation.index)
        annotations = self._meta.annotations | {COMPLETION_INDEX: index}
        if creation.failures is not None:
            annotations[INDEX_FAILURE_COUNT] = str(creation.failures)
            earlier = creation.failures + creation.ignored_failures + creation.interruptions
            annotations[ATTEMPT_ANNOTATION] = str(earlier)
        if creation.interruptions:
            annotations[INTERRUPTIONS_ANNOTATION] = str(creation.interruptions)
        if creation.ignored_failures:
            annotations[INDEX_IGNORED_FAILURE_COUNT] = str(creation.ignored_failures)
        meta = msgspec.structs.replace(
            self._meta,
            generate_name=f"{self._job_name[: _MAX_PREFIX - len(index) - 2]}-{index}-",
            labels=self._meta.labels | {COMPLETION_INDEX: index},
            annotations=annotations,
        )
        return Pod(metadata=meta, spec=msgspec.structs.replace(self._spec, hostname=f"{self._job_name}-{index}"))


def _add_index_variable(spec: PodSpec) -> PodSpec:
    return msgspec.structs.replace(
        spec,
        init_containers=tuple(map(_add_variable, spec.init_containers)),
        containers=tuple(map(_add_variable, spec.containers)),
    )


def _add_variable(container: Container) -> Container:
    """Return the container with the index variable, unless the user has set a variable of that name."""
    if any(variable.name == INDEX_VARIABLE for variable in container.env):
        return container
    return msgspec.structs.replace(container, env=(*container.env, _INDEX_ENV))
