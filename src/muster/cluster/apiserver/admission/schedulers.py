"""Warn about pods whose scheduler does not run here."""

from collections.abc import Collection

from muster.cluster.apiserver.admission.chain import Remark, WriteAttempt
from muster.cluster.apiserver.admission.podspecs import list_pod_specs


def warn_of_missing_scheduler(names: Collection[str]) -> Remark:
    """Return the check that warns if a new pod or template names a scheduler that does not run here.

    names: the schedulers that run here.
    """

    def remark(attempt: WriteAttempt) -> str:
        if attempt.subresource or attempt.operation != "CREATE":
            return ""
        for path, spec in list_pod_specs(attempt.resource.key, attempt.document):
            name = spec.get("schedulerName")
            if name and name not in names and not spec.get("nodeName"):
                return f"{path}.schedulerName: no scheduler here is called {name!r}: the pods wait until one is"
        return ""

    return remark
