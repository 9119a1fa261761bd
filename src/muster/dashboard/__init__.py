"""The dashboard: pages about queues, jobs, nodes and time, rendered on the server and kept up to date while open."""
