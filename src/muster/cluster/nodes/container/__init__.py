"""One container: its start, its probes, its logs, its streams and its end."""
