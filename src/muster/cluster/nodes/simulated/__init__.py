"""The nodes of kind `simulated`: they report the lives of their pods by rule and run nothing."""
