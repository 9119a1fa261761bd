"""Identify users: the names they have, and the certificates and tokens that authenticate them."""
