"""What a shell offers at the press of TAB, beyond what click knows of commands and options by itself."""
