"""Read jobs and groups of pods, with their pods and Events."""
