"""Runs scripts that were written for Slurm.

- `options` is the table of sbatch's options, and reads them; `values` parses what stands behind them.
- `translation` turns the `#SBATCH` lines of a script into options of `muster run` and a `Batch`.

Nothing here knows a cluster.
"""
