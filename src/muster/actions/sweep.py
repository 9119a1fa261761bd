"""A sweep: trials on their own, each with an index, as one Indexed Job. Pure.

Where the indexes are the completion indexes, a trial has its own from Kubernetes. Else a shell finds it in the list of
them, and the values of a grid by it, before it becomes the trial's command.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.batch import COMPLETION_INDEX, INDEX_FAILURE_COUNT
from muster.api.kueue.names import JOB_MIN_PARALLELISM
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.api.ours.trials import ARRAY_ANNOTATION, GRID_ANNOTATION, RETRY_ANNOTATION, Array, Grid
from muster.api.values.expansion import escape
from muster.api.values.shells import prepared

_INDEX, _ARRAY, _ATTEMPT = "MUSTER_INDEX", "MUSTER_ARRAY", "MUSTER_ATTEMPT"

# The index at the place that the completion index is, in a list of N, N-M and N-M:STEP.
_FIND = f"""\
_at=$JOB_COMPLETION_INDEX IFS=,
for _run in ${_ARRAY}; do
  _step=${{_run#*:}}; [ "$_step" != "$_run" ] || _step=1
  _run=${{_run%:*}}; _first=${{_run%-*}}; _size=$(((${{_run#*-}} - _first) / _step + 1))
  [ $_at -ge $_size ] || break
  _at=$((_at - _size))
done
unset IFS
export {_INDEX}=$((_first + _at * _step))
"""

# NAME STRIDE VALUE...: the variable has the value that the index stands for.
_PICK = f"""\
pick() {{ _name=$1 _at=$(({_INDEX} / $2)); shift 2; shift $((_at % $#)); export "$_name=$1"; }}
"""

# What of a Job, and of its pods, another one gets anew: what the server made, and what its queue did.
_OF_THE_SERVER = ("selector", "suspend", "managedBy", "completions", "parallelism")
_MADE = ("controller-uid", "job-name", "batch.kubernetes.io/", "kueue.x-k8s.io/podset")
_QUEUES = ("kueue.x-k8s.io/", "batch.kubernetes.io/")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_INJECTED = ("nodeSelector", "tolerations", "schedulingGates")

_LIMIT = re.compile(r"[1-9]\d{0,8}", re.ASCII)

# The name of a variable between braces.
_PLACE = re.compile(r"(?<!\$)\{([A-Za-z][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Sweep:
    """The trials of a job.

    at_once: how many run at a time at the most; None for as many as there is room for.
    retries: how often a trial that fails is tried again.
    """

    array: Array
    grid: Grid | None = None
    at_once: int | None = None
    retries: int = 0

    @classmethod
    def parse(cls, array: str, grid: Sequence[str], *, retries: int = 0) -> "Sweep":
        """What `--array` and `--grid` say. Raises `ValueError` that says what is wrong."""
        found = Grid.parse(grid) if grid else None
        text, percent, limit = array.partition("%")
        if percent and not _LIMIT.fullmatch(limit):
            raise ValueError(f"{array[:40]!r}: behind % stands how many run at a time, at least 1, as in 0-99%8")
        whole = found if found is not None and not text else ()
        indexes = Array((range(len(whole)),)) if whole else Array.parse(text)
        if found is not None and (beyond := [run[-1] for run in indexes.runs if run[-1] >= len(found)]):
            raise ValueError(f"{beyond[0]} is beyond the grid, whose {len(found)} combinations are 0-{len(found) - 1}")
        return cls(indexes, found, int(limit) if percent else None, retries)

    @property
    def parallelism(self) -> int:
        """How many pods the Job has at a time."""
        return min(self.at_once or len(self.array), len(self.array))

    def variables(self) -> dict[str, dict[str, Any]]:
        """What tells a trial which one it is, and for the how manyth time, by name, as the entries of a container."""
        index = {_INDEX: _annotation(COMPLETION_INDEX)} if self.array.is_plain else {_ARRAY: {"value": str(self.array)}}
        return index | {_ATTEMPT: _annotation(INDEX_FAILURE_COUNT)}

    def command(self, words: Sequence[str]) -> list[str]:
        """What runs the command of a trial, for a manifest."""
        found = [escape(word) for word in words] if self.grid is None else _with_values(self.grid, words)
        return found if self.array.is_plain else _indexed(found)


def swept(manifest: dict[str, Any], sweep: Sweep) -> dict[str, Any]:
    """The manifest of a Job, with the number of these trials, and with what makes each of them independent."""
    metadata = manifest["metadata"]
    limit = f"%{sweep.at_once}" if sweep.at_once else ""
    annotations = {GANG_ANNOTATION: "false", ARRAY_ANNOTATION: f"{sweep.array}{limit}"}
    if sweep.grid is not None:
        annotations[GRID_ANNOTATION] = str(sweep.grid)
    if sweep.parallelism > 1:  # a queue with less quota starts as many as it can
        annotations[JOB_MIN_PARALLELISM] = "1"
    spec = {name: value for name, value in manifest["spec"].items() if name != "backoffLimit"} | {
        "completions": len(sweep.array),
        "parallelism": sweep.parallelism,
        "backoffLimitPerIndex": sweep.retries,
    }
    return manifest | {
        "metadata": metadata | {"annotations": metadata.get("annotations", {}) | annotations},
        "spec": spec,
    }


def again(manifest: dict[str, Any], array: Array, name: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The manifest of a sweep that has ended, as another one with fewer trials.

    before: the template as it was before its queue injected anything. Raises `ValueError` if it names no command.
    """
    metadata, spec, template = manifest["metadata"], manifest["spec"], manifest["spec"]["template"]
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    limit = annotations[ARRAY_ANNOTATION].partition("%")[2]
    kept = {key: value for key, value in annotations.items() if not key.startswith(_QUEUES) and key != _APPLIED}
    labels = {key: value for key, value in metadata.get("labels", {}).items() if not key.startswith(_MADE)}
    original = annotations.get(RETRY_ANNOTATION, metadata["name"])
    new_template = _of_new(_restored(template, before), array, name)
    whole = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": kept | {RETRY_ANNOTATION: original},
        },
        "spec": {key: value for key, value in spec.items() if key not in _OF_THE_SERVER} | {"template": new_template},
    }
    retries = spec.get("backoffLimitPerIndex", 0)
    return swept(whole, Sweep(array, at_once=int(limit) if _LIMIT.fullmatch(limit) else None, retries=retries))


def _restored(template: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The template without what the server gave it, and what a queue did."""
    found = template if before is None else before
    metadata = {part: found.get("metadata", {}).get(part, {}) for part in ("labels", "annotations")}
    metadata["labels"] = {key: value for key, value in metadata["labels"].items() if not key.startswith(_MADE)}
    injected = {part: found["spec"][part] for part in _INJECTED if part in found["spec"]}
    spec = {part: value for part, value in template["spec"].items() if part not in _INJECTED}
    return {"metadata": metadata, "spec": spec | injected}


def _of_new(template: dict[str, Any], array: Array, name: str) -> dict[str, Any]:
    """The template of a Job of this name and these indexes."""
    [container, *others] = template["spec"]["containers"]
    variables = {entry["name"]: entry for entry in container.get("env", ())}
    if "MUSTER_JOB" in variables:
        variables["MUSTER_JOB"] = {"name": "MUSTER_JOB", "value": name}
    changed = dict(container)
    if _ARRAY in variables or not array.is_plain:
        if not container.get("command"):
            raise ValueError("its container names no command, so it cannot be told which trials are meant")
        if _ARRAY not in variables:
            changed["command"] = _indexed(container["command"])
        variables.pop(_INDEX, None)
        variables[_ARRAY] = {"name": _ARRAY, "value": str(array)}
    changed["env"] = [*variables.values()]
    return template | {"spec": template["spec"] | {"containers": [changed, *others]}}


def _annotation(key: str) -> dict[str, Any]:
    """The value of a variable: an annotation of the pod."""
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}


def _indexed(command: Sequence[str]) -> list[str]:
    """A command behind the shell that finds its index."""
    return prepared(_FIND, command)


def _with_values(grid: Grid, words: Sequence[str]) -> list[str]:
    """A command behind the shell that gives it the values of its index: as variables, and in place of `{NAME}`."""
    picks = [shlex.join(["pick", name, str(stride), *grid.axes[name]]) for name, stride in grid.strides().items()]
    script = _PICK + "\n".join(picks) + "\n"
    command = [escape(word) for word in words]
    if not any(name in grid.axes for word in words for name in _PLACE.findall(word)):
        return prepared(script, command)
    # The words as they were typed are behind it for the reader of the manifest.
    return prepared(script, command, "exec " + " ".join(_filled(grid, word) for word in words))


def _filled(grid: Grid, word: str) -> str:
    """A word for a shell that fills in the values."""
    text = [shlex.quote(part) if part else "" for part in _PLACE.split(word)[::2]]
    names = [f'"${name}"' if name in grid.axes else shlex.quote(f"{{{name}}}") for name in _PLACE.findall(word)]
    return "".join(part for pair in zip(text, [*names, ""], strict=True) for part in pair) or "''"
