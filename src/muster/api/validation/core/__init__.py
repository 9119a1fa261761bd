"""Rules of the core group's plain objects."""
