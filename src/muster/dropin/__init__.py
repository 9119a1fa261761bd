"""Modules that stand in for others where their directory is on the path first. Opt in: see `submitit.md` in the docs.

A library that imports submitit by name (Hydra's launcher) then gets `muster.submitit`, on its workers too: these have
the caller's PYTHONPATH. `python -m muster.submitit` prints the directory.
"""
