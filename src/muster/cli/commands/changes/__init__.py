"""Commands by which a user changes, holds, ends or retries submitted jobs, or runs a command beside one."""
