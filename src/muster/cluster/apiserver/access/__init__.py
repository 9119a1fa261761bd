"""Who may do what: roles, reviews, tokens, impersonation, audit."""
