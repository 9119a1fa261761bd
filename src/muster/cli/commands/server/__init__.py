"""Commands with which an administrator starts, checks, backs up and stops the embedded cluster."""
