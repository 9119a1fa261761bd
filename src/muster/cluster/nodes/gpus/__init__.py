"""The GPUs of a machine: their discovery, their health, and their assignment to containers."""
