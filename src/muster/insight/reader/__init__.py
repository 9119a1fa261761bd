"""Read the inputs of `insight` through the API of any cluster, with the rights of the user."""
