"""Runs scripts that were written for Slurm.

- `options` is the table of sbatch's options, and reads them; `values` parses what stands behind them.
- `translation` turns the `#SBATCH` lines of a script into options of `muster run` and a `ScriptSettings`.
- `allocation` makes what the script finds: variables, and names of files, which `files` opens.
- `steps` plans the tasks of one `srun`, and `srun` runs them. `ledger` shares the CPUs among steps.
- `scontrol` lists the nodes. `bin` has it and `srun` as programs, which `programs` puts on the PATH.

Nothing here knows a cluster.
"""
