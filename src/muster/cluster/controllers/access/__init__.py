"""Controllers of what users and accounts may use: aggregated roles, tokens, and the queues of teams."""
