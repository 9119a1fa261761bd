"""Complete words in a shell, in addition to the commands and options that click completes by itself."""
