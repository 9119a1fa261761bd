"""Handle what this process shares with its machine: its locks, its files, its log, its memory."""
