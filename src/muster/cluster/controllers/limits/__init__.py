"""Controllers that count against a limit: the use of ResourceQuotas, and the evictions that budgets allow."""
