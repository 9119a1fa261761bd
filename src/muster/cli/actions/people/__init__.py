"""Make teams and users."""
