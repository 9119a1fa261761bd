"""Commands that change, hold, end or retry submitted jobs, or run a command next to a worker of one."""
