"""Change running Jobs of a role: their time limit, and the parallelism and completions of Indexed Jobs together."""

from msgspec.structs import replace

from muster.api.batch import INDEXED, JobSpec


def adjust_spec(spec: JobSpec, wanted: JobSpec) -> JobSpec:
    """Return the spec of an existing child Job with the parallelism, completions and time limit of `wanted`."""
    if spec.active_deadline_seconds != wanted.active_deadline_seconds:
        spec = replace(spec, active_deadline_seconds=wanted.active_deadline_seconds)
    size = wanted.completions
    if wanted.completion_mode != INDEXED or size is None or wanted.parallelism != size:
        return spec
    return replace(spec, parallelism=size, completions=size)
