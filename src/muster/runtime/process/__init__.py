"""Handle the resources that this process shares with its machine: locks, files, log, memory."""
