"""What a process node keeps on disk, and how it is removed."""
