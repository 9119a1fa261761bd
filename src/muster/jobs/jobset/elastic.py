"""Change running Jobs of a role: their time limit, and the parallelism and completions of Indexed Jobs together."""

from msgspec.structs import replace

from muster.api.batch import INDEXED, JobSpec


def adjust_spec(spec: JobSpec, desired: JobSpec) -> JobSpec:
    """Return the spec of an existing child Job with the time limit of `desired`, and with its size if that may change.

    The size is parallelism and completions. It changes only if `desired` is Indexed and both numbers are equal in it.
    """
    if spec.active_deadline_seconds != desired.active_deadline_seconds:
        spec = replace(spec, active_deadline_seconds=desired.active_deadline_seconds)
    size = desired.completions
    if desired.completion_mode != INDEXED or size is None or desired.parallelism != size:
        return spec
    return replace(spec, parallelism=size, completions=size)
