"""The quota of each queue, and its usage."""
