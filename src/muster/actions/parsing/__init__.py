"""Parse what users write: amounts, times, scripts and files of variables."""
