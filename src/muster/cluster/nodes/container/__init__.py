"""Run one container of a process node: its start, probes, logs, streams and end. `pod/` decides what to run."""
