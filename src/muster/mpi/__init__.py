"""Runs MPI over the workers of a job.

Rank 0 runs `mpirun`, and the other workers run an agent that starts its daemons.

- `launchers`, `hosts` and `variables` decide: which commands are launchers, which hosts there are, what `mpirun` reads.
- `identity` makes the certificate that the workers of one job have, and the two ends of a connection that it opens.
- `launch` is rank 0, `agent` is every other worker, `frames` is the protocol between the two.
- `remote_shell` is the program that `mpirun` calls in the place of ssh.

`actions` writes the manifest of such a job. Nothing here knows a cluster.
"""
