"""The groups by which an API server is governed: who may do what, which kinds there are, and who is asked."""
