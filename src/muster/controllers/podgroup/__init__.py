"""PodGroups as a cluster has them: the gangs that they are, and what is told of them."""
