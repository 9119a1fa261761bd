"""Describe a sweep: independent trials, each with an index, in one Indexed Job. Pure.

If the trials' indexes are the completion indexes, Kubernetes sets the index of a trial. Otherwise a shell looks up the
index in the list of indexes before it runs the trial's command. The shell also looks up the values of a grid.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.api.batch import COMPLETION_INDEX, INDEX_FAILURE_COUNT
from muster.api.kueue.names import JOB_MIN_PARALLELISM
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.api.ours.interruptions import ATTEMPT_ANNOTATION
from muster.api.ours.notify import NOTIFIED_ANNOTATION, NOTIFY_FAILURE_ANNOTATION
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.trials import (
    ARRAY_ANNOTATION,
    CANCELLED_ANNOTATION,
    GRID_ANNOTATION,
    RETRY_ANNOTATION,
    Array,
    Grid,
)
from muster.api.values.expansion import escape
from muster.api.values.shells import wrap_in_shell

_INDEX, _ARRAY, _ATTEMPT = "MUSTER_INDEX", "MUSTER_ARRAY", "MUSTER_ATTEMPT"

# Looks up the trial's index: the entry at the completion index in a list of N, N-M and N-M:STEP.
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

# pick NAME STRIDE VALUE... sets the variable NAME to the value for the trial's index.
_PICK = f"""\
pick() {{ _name=$1 _at=$(({_INDEX} / $2)); shift 2; shift $((_at % $#)); export "$_name=$1"; }}
"""

# The fields, labels and annotations that the server and the queue set, and that a new Job must not have.
_SERVER_FIELDS = ("selector", "suspend", "managedBy", "completions", "parallelism")
_SERVER_KEYS = ("controller-uid", "job-name", "batch.kubernetes.io/", "kueue.x-k8s.io/podset")
_QUEUE_KEYS = ("kueue.x-k8s.io/", "batch.kubernetes.io/")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The annotations of the retried job that the new job does not get. Its submitter is the user who retries.
_OF_THE_RUN = (
    _LAST_APPLIED,
    CANCELLED_ANNOTATION,
    NOTIFIED_ANNOTATION,
    NOTIFY_FAILURE_ANNOTATION,
    SUBMITTER_ANNOTATION,
)
_INJECTED_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")

_LIMIT = re.compile(r"[1-9]\d{0,8}", re.ASCII)

# A name of a variable in braces.
_PLACE = re.compile(r"(?<!\$)\{([A-Za-z][A-Za-z0-9_]*)\}")


class Sweep(Struct, frozen=True):
    """The trials of a job.

    at_once: the maximum number of concurrent trials; None for no limit.
    retries: how often a trial is retried after a failure.
    """

    array: Array
    grid: Grid | None = None
    at_once: int | None = None
    retries: int = 0

    @classmethod
    def parse(cls, array: str, grid: Sequence[str], *, retries: int = 0) -> "Sweep":
        """Parse the values of `--array` and `--grid`. Raises `ValueError` with a sentence for the user."""
        parsed_grid = Grid.parse(grid) if grid else None
        text, percent, limit = array.partition("%")
        if percent and not _LIMIT.fullmatch(limit):
            raise ValueError(f"{array[:40]!r}: behind % stands how many run at a time, at least 1, as in 0-99%8")
        whole = parsed_grid if parsed_grid is not None and not text else ()
        indexes = Array((range(len(whole)),)) if whole else Array.parse(text)
        if parsed_grid is not None and (beyond := [run[-1] for run in indexes.runs if run[-1] >= len(parsed_grid)]):
            raise ValueError(
                f"{beyond[0]} is beyond the grid, whose {len(parsed_grid)} combinations are 0-{len(parsed_grid) - 1}"
            )
        return cls(indexes, parsed_grid, int(limit) if percent else None, retries)

    @property
    def parallelism(self) -> int:
        """The maximum number of concurrent trials; without a limit, the number of all trials."""
        return min(self.at_once or len(self.array), len(self.array))

    def variables(self, *, upstream: bool = False) -> dict[str, dict[str, Any]]:
        """Return the environment variables with a trial's index and attempt, by name.

        upstream: whether Kubernetes' own Job controller runs the job. It counts failures only.
        """
        index = (
            {_INDEX: _make_annotation_reference(COMPLETION_INDEX)}
            if self.array.is_plain
            else {_ARRAY: {"value": str(self.array)}}
        )
        return index | {_ATTEMPT: _make_annotation_reference(INDEX_FAILURE_COUNT if upstream else ATTEMPT_ANNOTATION)}

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command of a trial for a manifest.

        words: the user's command.

        A sweep with a grid, or with indexes other than 0 to N, wraps the command in shells that look up the trial's
        values and index.
        """
        command = [escape(word) for word in words] if self.grid is None else _wrap_with_values(self.grid, words)
        return command if self.array.is_plain else _wrap_with_index(command)


def make_sweep(manifest: dict[str, Any], sweep: Sweep) -> dict[str, Any]:
    """Return the manifest of a Job with the settings that make each of the sweep's trials independent."""
    metadata = manifest["metadata"]
    limit = f"%{sweep.at_once}" if sweep.at_once else ""
    annotations = {GANG_ANNOTATION: "false", ARRAY_ANNOTATION: f"{sweep.array}{limit}"}
    if sweep.grid is not None:
        annotations[GRID_ANNOTATION] = str(sweep.grid)
    if sweep.parallelism > 1:  # a queue with less quota then starts as many trials as it can
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


def make_retry(manifest: dict[str, Any], array: Array, name: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the manifest of a new sweep that repeats some trials of a finished sweep, or all.

    array: the indexes of the trials to repeat.
    name: the name of the new sweep.
    before: the pod template from before the queue injected fields; None if it is unknown.

    Raises `ValueError` if the manifest has no command.
    """
    metadata, spec, template = manifest["metadata"], manifest["spec"], manifest["spec"]["template"]
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    limit = annotations[ARRAY_ANNOTATION].partition("%")[2]
    kept_annotations = {
        key: value for key, value in annotations.items() if not key.startswith(_QUEUE_KEYS) and key not in _OF_THE_RUN
    }
    labels = {key: value for key, value in metadata.get("labels", {}).items() if not key.startswith(_SERVER_KEYS)}
    original = annotations.get(RETRY_ANNOTATION, metadata["name"])
    new_template = _adapt_template(_restore_template(template, before), array, name)
    whole = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": kept_annotations | {RETRY_ANNOTATION: original},
        },
        "spec": {key: value for key, value in spec.items() if key not in _SERVER_FIELDS} | {"template": new_template},
    }
    retries = spec.get("backoffLimitPerIndex", 0)
    return make_sweep(whole, Sweep(array, at_once=int(limit) if _LIMIT.fullmatch(limit) else None, retries=retries))


def _restore_template(template: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the pod template without the fields that the server and the queue added."""
    original = template if before is None else before
    metadata = {part: original.get("metadata", {}).get(part, {}) for part in ("labels", "annotations")}
    metadata["labels"] = {key: value for key, value in metadata["labels"].items() if not key.startswith(_SERVER_KEYS)}
    injected = {part: original["spec"][part] for part in _INJECTED_FIELDS if part in original["spec"]}
    spec = {part: value for part, value in template["spec"].items() if part not in _INJECTED_FIELDS}
    return {"metadata": metadata, "spec": spec | injected}


def _adapt_template(template: dict[str, Any], array: Array, name: str) -> dict[str, Any]:
    """Return a sweep's pod template, changed for a new Job with this name that repeats the trials in `array`.

    Raises `ValueError` if the container has no command to which the list of trials can be passed.
    """
    [container, *others] = template["spec"]["containers"]
    variables = {entry["name"]: entry for entry in container.get("env", ())}
    if "MUSTER_JOB" in variables:
        variables["MUSTER_JOB"] = {"name": "MUSTER_JOB", "value": name}
    changed = dict(container)
    if _ARRAY in variables or not array.is_plain:
        if not container.get("command"):
            raise ValueError("its container names no command, so the index of a trial cannot be passed on")
        if _ARRAY not in variables:
            changed["command"] = _wrap_with_index(container["command"])
        variables.pop(_INDEX, None)
        variables[_ARRAY] = {"name": _ARRAY, "value": str(array)}
    changed["env"] = [*variables.values()]
    return template | {"spec": template["spec"] | {"containers": [changed, *others]}}


def _make_annotation_reference(key: str) -> dict[str, Any]:
    """Return the value of an environment variable that reads an annotation of the pod."""
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}


def _wrap_with_index(command: Sequence[str]) -> list[str]:
    """Return the command wrapped in a shell that looks up the trial's index."""
    return wrap_in_shell(_FIND, command)


def _wrap_with_values(grid: Grid, words: Sequence[str]) -> list[str]:
    """Return the command wrapped in a shell that looks up the trial's values.

    The shell sets a variable for each value, and replaces `{NAME}` in the words of the command.
    """
    picks = [shlex.join(["pick", name, str(stride), *grid.axes[name]]) for name, stride in grid.strides().items()]
    script = _PICK + "\n".join(picks) + "\n"
    command = [escape(word) for word in words]
    if not any(name in grid.axes for word in words for name in _PLACE.findall(word)):
        return wrap_in_shell(script, command)
    # The original words follow as arguments, for readers of the manifest.
    return wrap_in_shell(script, command, "exec " + " ".join(_fill_word(grid, word) for word in words))


def _fill_word(grid: Grid, word: str) -> str:
    """Return a word of the command as shell text, with each name in braces replaced by its value."""
    text = [shlex.quote(part) if part else "" for part in _PLACE.split(word)[::2]]
    names = [f'"${name}"' if name in grid.axes else shlex.quote(f"{{{name}}}") for name in _PLACE.findall(word)]
    return "".join(part for pair in zip(text, [*names, ""], strict=True) for part in pair) or "''"
