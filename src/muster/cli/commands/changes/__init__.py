"""Commands that change, hold, end or retry submitted jobs, or run a command in a worker's container."""
