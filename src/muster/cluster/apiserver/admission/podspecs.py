"""Find the pod specs in an object that runs pods: its own pod spec, or the pod specs of its templates."""

from collections.abc import Iterator
from typing import Any

from muster.api.batch import CRON_JOB, JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.decode import Document


def list_pod_specs(resource: str, document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each pod spec of a pod or a job of any kind, with its path. `resource`: a resource's key."""
    spec = document.get("spec") or {}
    if resource == POD.resource:
        yield "spec", spec
    elif resource == JOB.resource:
        yield "spec.template.spec", _find_pod_spec(spec)
    elif resource == CRON_JOB.resource:
        yield "spec.jobTemplate.spec.template.spec", _find_pod_spec((spec.get("jobTemplate") or {}).get("spec") or {})
    elif resource == JOB_SET.resource:
        for i, role in enumerate(spec.get("replicatedJobs") or ()):
            path = f"spec.replicatedJobs[{i}].template.spec.template.spec"
            yield path, _find_pod_spec((role.get("template") or {}).get("spec") or {})
    elif resource == VOLCANO_JOB.resource:
        for i, task in enumerate(spec.get("tasks") or ()):
            yield f"spec.tasks[{i}].template.spec", _find_pod_spec(task)


def _find_pod_spec(owner: dict[str, Any]) -> dict[str, Any]:
    return (owner.get("template") or {}).get("spec") or {}
