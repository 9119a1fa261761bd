"""Decides and records who may do what: roles, reviews, tokens, impersonation, audit."""
