"""Controllers that publish where the server is and what it serves."""
