"""Controllers that delete objects of any kind: the garbage collector, and removers of namespaces and custom kinds."""
