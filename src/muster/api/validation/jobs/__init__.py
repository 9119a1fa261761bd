"""Rules of Jobs."""
