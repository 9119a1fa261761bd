"""The files of a process node on disk, and their removal."""
