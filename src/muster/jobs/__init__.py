"""The algorithms of kinds of jobs, one package for each kind. Pure."""
