"""What this process is to its machine: its locks, its files, its log, its memory."""
