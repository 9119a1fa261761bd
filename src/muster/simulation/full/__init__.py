"""Run scenarios with a complete cluster, its server and all its controllers, in virtual time."""
