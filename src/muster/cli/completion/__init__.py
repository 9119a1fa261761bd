"""Complete words in a shell, beyond the commands and options that click completes by itself."""
