"""The volumes of pods: what is in them, and where containers see them."""
