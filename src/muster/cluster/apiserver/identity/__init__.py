"""Identify users: their names, and the certificates and tokens that authenticate them."""
