"""Run one container of a process node: its start, probes, logs, streams and exit. `pod/` decides what to run."""
