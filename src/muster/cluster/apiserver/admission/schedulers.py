"""What there is to say of pods that no scheduler here will look at."""

from collections.abc import Collection

from muster.api.batch import JOB
from muster.api.core import POD
from muster.cluster.apiserver.admission.chain import Attempt, Remark


def scheduler_of_nobody(names: Collection[str]) -> Remark:
    """Tells who makes a pod, or a Job, for a scheduler that has to come from elsewhere. names: those that are here."""

    def remark(attempt: Attempt) -> str:
        if attempt.subresource or attempt.operation != "CREATE":
            return ""
        path, spec = "spec", attempt.document.get("spec") or {}
        if attempt.resource.key == JOB.resource:
            path, spec = "spec.template.spec", (spec.get("template") or {}).get("spec") or {}
        elif attempt.resource.key != POD.resource:
            return ""
        name = spec.get("schedulerName")
        if not name or name in names or spec.get("nodeName"):
            return ""
        return f"{path}.schedulerName: no scheduler here is called {name!r}: the pods wait until one is"

    return remark
