"""The rules of pods, their containers and their volumes."""
