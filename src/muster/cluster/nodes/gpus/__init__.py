"""The GPUs of a machine: which there are, how they are, and which container has which."""
