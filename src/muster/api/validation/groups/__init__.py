"""Rules of groups beside the core and batch."""
