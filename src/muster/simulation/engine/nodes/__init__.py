"""Place gangs on the nodes of a simulation, by the decisions of the scheduler."""
