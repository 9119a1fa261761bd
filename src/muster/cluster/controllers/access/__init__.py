"""Controllers of the rights of users and accounts: aggregated roles, tokens, and the queues of teams."""
