"""Controllers that end objects of any kind: the garbage collector, and the ends of namespaces and custom kinds."""
