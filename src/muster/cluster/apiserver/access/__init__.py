"""Decide and record who may do what: roles, reviews, tokens, impersonation, audit."""
