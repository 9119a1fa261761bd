"""PodGroups of every dialect: what a pod says of its group, what a group asks, how it does. Pure."""
