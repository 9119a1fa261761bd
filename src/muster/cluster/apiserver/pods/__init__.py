"""Answer requests to a pod itself: its logs, commands in its containers, its ports, its binding and eviction."""
