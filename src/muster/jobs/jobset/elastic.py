"""Roles whose Jobs grow and shrink while they run: parallelism and completions in tandem, as Indexed Jobs may."""

from msgspec.structs import replace

from muster.api.batch import INDEXED, JobSpec


def resized(spec: JobSpec, wanted: JobSpec) -> JobSpec:
    """A Job's spec with the size that its role asks for now."""
    size = wanted.completions
    if wanted.completion_mode != INDEXED or size is None or wanted.parallelism != size:
        return spec
    return replace(spec, parallelism=size, completions=size)
