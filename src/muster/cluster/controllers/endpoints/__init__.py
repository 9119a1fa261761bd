"""Controllers that publish the server's address and the API groups that it serves."""
