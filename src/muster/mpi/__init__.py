"""Run MPI over the workers of a job.

Rank 0 runs `mpirun`. Every other worker runs an agent, which starts the daemons of `mpirun` on that worker.

- `launchers`, `hosts` and `variables` decide which commands are launchers, and make host files and launcher settings.
- `identity` makes a job's certificate, and the TLS contexts with which its workers trust only each other.
- `launch` is the program of rank 0, `agent` that of every other worker, and `frames` the protocol between the two.
- `remote_shell` is the program that `mpirun` calls instead of ssh.

`actions` makes the manifest of such a job. No module of this package calls an API server.
"""
