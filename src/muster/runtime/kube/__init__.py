"""How a server is reached: which one, as whom, over which wire."""
