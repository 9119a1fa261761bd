"""Decide which users may do what, and record their requests: roles, reviews, tokens, impersonation, audit."""
