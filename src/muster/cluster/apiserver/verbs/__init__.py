"""The verbs of the API: they read, watch, write and delete objects of the store."""
