"""Commands by which an administrator starts, checks, saves and stops the embedded cluster."""
