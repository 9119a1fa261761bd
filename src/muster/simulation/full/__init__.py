"""Play scenarios by the whole of a cluster, with its server and all its controllers, in virtual time."""
