"""What there is to say of pods that no scheduler here will look at."""

from collections.abc import Collection, Iterator
from typing import Any

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.cluster.apiserver.admission.chain import Attempt, Remark


def scheduler_of_nobody(names: Collection[str]) -> Remark:
    """Tells who makes a pod, a Job or a JobSet for a scheduler that has to come from elsewhere. names: those here."""

    def remark(attempt: Attempt) -> str:
        if attempt.subresource or attempt.operation != "CREATE":
            return ""
        for path, spec in _pod_specs(attempt):
            name = spec.get("schedulerName")
            if name and name not in names and not spec.get("nodeName"):
                return f"{path}.schedulerName: no scheduler here is called {name!r}: the pods wait until one is"
        return ""

    return remark


def _pod_specs(attempt: Attempt) -> Iterator[tuple[str, dict[str, Any]]]:
    """What pods it is about."""
    spec = attempt.document.get("spec") or {}
    if attempt.resource.key == POD.resource:
        yield "spec", spec
    elif attempt.resource.key == JOB.resource:
        yield "spec.template.spec", _within(spec)
    elif attempt.resource.key == JOB_SET.resource:
        for i, role in enumerate(spec.get("replicatedJobs") or ()):
            path = f"spec.replicatedJobs[{i}].template.spec.template.spec"
            yield path, _within((role.get("template") or {}).get("spec") or {})


def _within(job: dict[str, Any]) -> dict[str, Any]:
    return (job.get("template") or {}).get("spec") or {}
