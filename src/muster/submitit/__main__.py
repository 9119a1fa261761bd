"""Print a directory for PYTHONPATH with a package `submitit`, for libraries that import submitit by that name."""

from pathlib import Path

from muster import dropin

print(Path(dropin.__file__).parent)
