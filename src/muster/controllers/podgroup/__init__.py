"""Handle PodGroups of every dialect: their gangs, status, budgets and policies."""
