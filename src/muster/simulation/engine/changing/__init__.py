"""Change queues, nodes and the engine while a simulation runs, as its scenario says."""
