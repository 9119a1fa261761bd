"""Prints the directory to put on the path for libraries that import submitit by name."""

from pathlib import Path

from muster import dropin

print(Path(dropin.__file__).parent)
