"""Make the manifest of a submitted job, as its user would write it. Pure."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from math import ceil
from typing import Any

from muster.api.kueue.names import JOB_MIN_PARALLELISM, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.ours.simulated import RUN_TIME
from muster.simulation.scenario.arrivals import Submission

Document = dict[str, Any]

_PREFIX = "j"
# The number of digits of a job's number in its name. Names thus sort jobs of the same time by their submission.
_DIGITS = 12


class UnplayableError(ValueError):
    """A template that the simulation with a server cannot run.

    path: the path of the field in the template.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def name_job(number: int) -> str:
    """Return the name of a job's object."""
    return f"{_PREFIX}{number:0{_DIGITS}}"


def read_number(name: str) -> int | None:
    """Return the number of the job whose object has this name; None if the simulation did not create the object."""
    digits = name.removeprefix(_PREFIX)
    return int(digits) if name.startswith(_PREFIX) and len(digits) == _DIGITS and digits.isdigit() else None


def name_priority_class(priority: int) -> str:
    """Return the name of the WorkloadPriorityClass for a priority that the scenario draws."""
    return f"simulated-{'minus-' if priority < 0 else ''}{abs(priority)}"


def require_playable(template: Mapping[str, Any], *, resized: bool) -> None:
    """Raise `UnplayableError` for a template whose jobs do not run all their pods at the same time.

    resized: whether the scenario sets the number of pods. The first role of a JobSet must then have one pod per Job.
    """
    if template.get("kind") == "Pod":
        raise UnplayableError("kind", "groups of pods are simulated by the fast engine only")
    for path, job in _list_jobs(template):
        spec = job["spec"]
        at_once, all_pods = spec.get("parallelism", 1), spec.get("completions")
        if all_pods is not None and all_pods != at_once and not (resized and path == ""):
            raise UnplayableError(f"{path}spec.completions", "must be the parallelism: a run time is that of all pods")
        if resized and path == _ROLE.format(0) and at_once != 1:
            raise UnplayableError(f"{path}spec.parallelism", "must be 1 where the scenario gives the size of a JobSet")


def make_manifest(template: Mapping[str, Any], submission: Submission, number: int) -> Document:
    """Return the manifest of a job, with its queue, priority, size, run time and limit.

    template: the template of its source of work.
    number: the number of the job, from which its name is derived.
    """
    manifest: Document = deepcopy(dict(template))
    meta = manifest["metadata"] = dict(manifest.get("metadata") or {}) | {"name": name_job(number)}
    labels = dict(meta.get("labels") or {})
    if submission.local_queue:
        labels[QUEUE_NAME_LABEL] = submission.local_queue
    if submission.priority is not None:
        labels[PRIORITY_CLASS_LABEL] = name_priority_class(submission.priority)
    meta["labels"] = labels
    if submission.size is not None:
        _resize(manifest, submission.size)
    for _, job in _list_jobs(manifest):
        _set_times(job["spec"], submission)
    return manifest


_ROLE = "spec.replicatedJobs[{}].template."


def _list_jobs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Document]]:
    """Yield the Job itself, or the Job template of each role of a JobSet, with the path of each."""
    roles = manifest["spec"].get("replicatedJobs")
    if roles is None:
        yield "", dict(manifest)
        return
    for number, role in enumerate(roles):
        yield _ROLE.format(number), role["template"]


def _resize(manifest: Document, size: int) -> None:
    spec = manifest["spec"]
    if "replicatedJobs" in spec:
        spec["replicatedJobs"][0]["replicas"] = size
        return
    spec["parallelism"] = size
    meta = manifest["metadata"]
    annotations = meta.get("annotations") or {}
    if (least := annotations.get(JOB_MIN_PARALLELISM, "")).isdigit() and int(least) >= size:
        meta["annotations"] = {key: value for key, value in annotations.items() if key != JOB_MIN_PARALLELISM}
    if "completions" in spec or spec.get("completionMode") == "Indexed":
        spec["completions"] = size


def _set_times(spec: Document, submission: Submission) -> None:
    """Set the time limit of a Job's simulated pods, if it has one, and annotate the pods with their run time.

    The run time is at most the limit.
    The limit is set on the pods, because it must count from their start. A Job's limit counts from its admission.
    """
    if submission.limit is not None:
        spec["template"]["spec"]["activeDeadlineSeconds"] = max(1, ceil(submission.limit))
    meta = spec["template"]["metadata"] = dict(spec["template"].get("metadata") or {})
    run_time = submission.run_time if submission.limit is None else min(submission.run_time, submission.limit)
    meta["annotations"] = dict(meta.get("annotations") or {}) | {RUN_TIME: f"{run_time:.6f}"}
