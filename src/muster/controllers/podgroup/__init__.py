"""Handles PodGroups of every dialect: the gangs that they are, their status, budgets and policies."""
