"""Reads what the rest of `insight` is made from, through the API of any cluster and with the rights of the user."""
