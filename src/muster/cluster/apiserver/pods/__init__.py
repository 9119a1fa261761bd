"""What is asked of a pod itself: its logs, commands in its containers, its ports, its binding and eviction."""
