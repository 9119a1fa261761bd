"""Place gangs on the nodes of a simulation, with the scheduler's own decisions."""
