"""The algorithms of kinds of jobs, one room for each kind. Pure."""
