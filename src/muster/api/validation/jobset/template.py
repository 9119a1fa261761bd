"""The rules of the Jobs that a JobSet will create.

Upstream accepts a template from which no Job can be created, and then reports it in events forever. Muster checks the
template as the Job will be: with the Job's defaults, and with the volumes and containers that the JobSet adds.
"""

from typing import Any

import msgspec

from muster.api.batch import JobSpec
from muster.api.defaults import default_job
from muster.api.jobset import JobSet, ReplicatedJob, names
from muster.api.validation.fields import Errors
from muster.api.validation.jobs.job import validate_template_spec
from muster.api.validation.metadata import validate_annotations, validate_labels

Json = dict[str, Any]


def validate_job_template(path: str, job_set: JobSet, role: ReplicatedJob) -> Errors:
    """Yield the errors in the template of the Jobs of a role."""
    template = role.template
    yield from validate_labels(f"{path}.metadata.labels", template.metadata.labels)
    yield from validate_annotations(f"{path}.metadata.annotations", template.metadata.annotations)
    job: Json = {"spec": msgspec.json.decode(msgspec.json.encode(template.spec))}
    _add(job["spec"].setdefault("template", {}).setdefault("spec", {}), job_set, role)
    default_job(job)
    yield from validate_template_spec(f"{path}.spec", msgspec.convert(job["spec"], JobSpec))


def _add(pod: Json, job_set: JobSet, role: ReplicatedJob) -> None:
    """Add to a pod template the volumes of claims, and the init container of the group start, as the JobSet will."""
    there = {volume.get("name") for volume in pod.get("volumes", ())}
    claims = {template.metadata.name for policy in job_set.spec.volume_claim_policies for template in policy.templates}
    # The rules of claims report a volume of the same name.
    added = [{"name": name, "emptyDir": {}} for name in sorted(claims - there)]
    if added:
        pod["volumes"] = [*pod.get("volumes", ()), *added]
    config = job_set.spec.group_scheduling_config
    if config is None or role.name not in (config.target_replicated_jobs or (role.name,)):
        return
    given = {container.get("name") for container in (*pod.get("containers", ()), *pod.get("initContainers", ()))}
    if names.GROUP_SCHEDULING_INIT not in given:
        waiting = {"name": names.GROUP_SCHEDULING_INIT, "image": "any"}
        pod["initContainers"] = [*pod.get("initContainers", ()), waiting]
