"""Limit how many containers, init containers and volumes a pod or pod template may have."""

from typing import Any

from muster.api.ours.podbounds import explain_excess
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.podspecs import list_pod_specs
from muster.cluster.store import Store


def require_bounds_of_pods(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
    """Raise `ApiError` (403) for a pod spec with too many containers or volumes, unless it had too many before."""
    if attempt.subresource or attempt.operation not in ("CREATE", "UPDATE"):
        return
    resource = attempt.resource.key
    for path, spec in list_pod_specs(resource, attempt.document):
        problem = _explain_excess(spec)
        if problem and not _was_excessive(attempt, path):
            raise attempt.make_refusal(f"{path}: {problem}")


def _was_excessive(attempt: WriteAttempt, path: str) -> bool:
    old = dict(list_pod_specs(attempt.resource.key, attempt.old)) if attempt.old is not None else {}
    return bool(_explain_excess(old.get(path, {})))


def _explain_excess(spec: dict[str, Any]) -> str:
    return explain_excess(
        containers=len(spec.get("containers") or ()),
        init_containers=len(spec.get("initContainers") or ()),
        volumes=len(spec.get("volumes") or ()),
    )
