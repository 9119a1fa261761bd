"""Change queues, nodes and the engine during a simulation, as the scenario defines."""
