"""Run scripts that were written for Slurm.

- `options` defines and parses the options of `sbatch` and `srun`; `values` parses the options' values.
- `translation` turns the `#SBATCH` lines of a script into options of `muster run` and a `ScriptSettings`.
- `allocation` makes the script's SLURM_ variables and the names of its output files, which `files` opens.
- `steps` plans the tasks of one `srun`, and `srun` runs them. `ledger` divides the CPUs among steps.
- `scontrol` lists the nodes. `bin` contains the programs `srun` and `scontrol`, which `programs` adds to the PATH.

No module of this package calls an API server.
"""
