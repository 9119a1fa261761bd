"""The nodes of kind `simulated`, which run nothing and report made-up pod statuses by rule."""
