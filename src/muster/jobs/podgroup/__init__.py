"""PodGroups of every dialect: reads pods' references and groups' specs, and decides groups' standing. Pure."""
