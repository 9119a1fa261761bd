"""The API groups besides core and batch, one module each: the groups that the server serves or the engine reads."""
