"""Run MPI over the workers of a job.

Rank 0 runs `mpirun`. Every other worker runs an agent, which starts the daemons of `mpirun` on that worker.

- `launchers`, `hosts` and `variables` decide which commands are launchers, the host files, and the launchers' settings.
- `identity` makes a job's certificate, and the TLS contexts by which its workers trust only each other.
- `launch` is rank 0, `agent` is every other worker, `frames` is the protocol between the two.
- `remote_shell` is the program that `mpirun` calls instead of ssh.

`actions` writes the manifest of such a job. No module of this package calls an API server.
"""
