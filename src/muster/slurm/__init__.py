"""Run scripts that were written for Slurm.

- `options` is the table of the options of `sbatch` and `srun`, and reads them; `values` parses the options' values.
- `translation` turns the `#SBATCH` lines of a script into options of `muster run` and a `ScriptSettings`.
- `allocation` makes the script's SLURM_ variables and the names of its output files, which `files` opens.
- `steps` plans the tasks of one `srun`, and `srun` runs them. `ledger` shares the CPUs among steps.
- `scontrol` lists the nodes. `bin` has the programs `srun` and `scontrol`, which `programs` puts on the PATH.

No module of this package calls an API server.
"""
