"""Rules of pods, of their containers and of their volumes."""
