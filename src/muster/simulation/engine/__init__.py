"""Play scenarios in virtual time."""
