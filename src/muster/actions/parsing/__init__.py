"""Parse user input: quantities, durations, times, scripts and files of variables."""
