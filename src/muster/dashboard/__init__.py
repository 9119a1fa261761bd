"""The dashboard: web pages about queues, jobs, nodes and time, rendered on the server and updated while open."""
