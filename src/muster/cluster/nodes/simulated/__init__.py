"""The nodes of kind `simulated`: they report made-up pod statuses by rule and run nothing."""
