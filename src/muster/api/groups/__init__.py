"""The API groups besides core and batch, one module each: those that the server serves or the engine reads."""
