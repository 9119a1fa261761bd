"""API groups beside the core and batch, a module each: what the server serves, and some that the engine reads."""
