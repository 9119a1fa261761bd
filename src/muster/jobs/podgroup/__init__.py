"""PodGroups of every dialect: read pods' references and groups' specs, and decide the state of groups. Pure."""
