"""Use the machine of this process: accounts, locks, files, limits, log, service manager."""
