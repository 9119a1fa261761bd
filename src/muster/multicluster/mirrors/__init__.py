"""Of each kind of job: its copy in a worker cluster, and what becomes of it there brought back. Pure."""
