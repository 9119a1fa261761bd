"""Mirror any kind of job whose `spec.managedBy` names its controller (`multiKueue.externalFrameworks`). Pure.

Jobs are plain JSON. The module only knows that field, `spec.suspend` if it exists, and the status. It finds the pod
templates by the fields that an admission injected into them.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.api.kinds import Kind
from muster.api.kueue import PodSet
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER, POD_SET_LABEL
from muster.api.members import Json, mapping_at
from muster.multicluster.mirrors.framework import Mirror, restore


class GenericMirror(Mirror[Json]):
    """The rules by which MultiKueue runs jobs of an external framework's kind in a worker cluster (`Mirror`)."""

    def __init__(self, kind: Kind[Json]) -> None:
        self.kind = kind

    def is_handed_over(self, job: Json) -> bool:
        """Return whether `spec.managedBy` names MultiKueue."""
        return bool(mapping_at(job, "spec").get("managedBy") == MULTI_KUEUE_CONTROLLER)

    def status(self, local: Json, remote: Json) -> Json:
        """Return the patch with the whole status, even of a suspended job, because no rule forbids that."""
        return _make_merge_patch(mapping_at(local, "status"), mapping_at(remote, "status"))

    def make_stop_patch(self, local: Json, now: datetime) -> Json:  # noqa: ARG002  (nothing is left that says when)
        """Return the patch that clears the status, as if the job had never run."""
        return dict.fromkeys(mapping_at(local, "status"))

    def has_ended(self, local: Json) -> bool:  # noqa: ARG002  (its workload says so)
        """Return False, because the module cannot tell whether such a job has finished.

        Its Workload shows that instead.
        """
        return False

    def has_started(self, remote: Json) -> bool:
        """Return whether the copy is not suspended."""
        return mapping_at(remote, "spec").get("suspend") is not True

    def is_active(self, remote: Json) -> bool:  # noqa: ARG002  (its workload says so)
        """Return False, because the pods of such a job are unknown. Its Workload shows the finish instead."""
        return False

    def _prepare(self, document: Json, podsets: Sequence[PodSet]) -> None:
        spec, originals = document["spec"], {podset.name: podset.template for podset in podsets}
        if "suspend" in spec:
            spec["suspend"] = True
        for template in _list_marked_templates(spec):
            if (original := originals.get(template["metadata"]["labels"][POD_SET_LABEL])) is not None:
                restore(template, original)


def _list_marked_templates(value: Any) -> Iterator[Json]:
    """Yield the pod templates into which an admission has injected fields."""
    if isinstance(value, list):
        for item in value:
            yield from _list_marked_templates(item)
    elif isinstance(value, dict):
        name = mapping_at(value, "metadata", "labels").get(POD_SET_LABEL)
        if isinstance(name, str) and isinstance(value.get("spec"), dict):
            yield value
        else:
            for item in value.values():
                yield from _list_marked_templates(item)


def _make_merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return the merge patch that turns `old` into `new`. A member that is null counts as absent."""
    patch: Json = {key: None for key, value in old.items() if value is not None and new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inside := _make_merge_patch(before, value):
                patch[key] = inside
        elif value is not None and value != before:
            patch[key] = value
    return patch
