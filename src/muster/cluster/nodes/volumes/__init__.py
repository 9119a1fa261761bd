"""The volumes of pods: their contents, and their mounts in containers."""
