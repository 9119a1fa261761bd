"""The files that a process node keeps on disk, and their removal."""
