"""Resizes running Jobs of a role: parallelism and completions together, as Indexed Jobs allow."""

from msgspec.structs import replace

from muster.api.batch import INDEXED, JobSpec


def resized(spec: JobSpec, wanted: JobSpec) -> JobSpec:
    """Return a Job's spec with the size that its role wants now."""
    size = wanted.completions
    if wanted.completion_mode != INDEXED or size is None or wanted.parallelism != size:
        return spec
    return replace(spec, parallelism=size, completions=size)
