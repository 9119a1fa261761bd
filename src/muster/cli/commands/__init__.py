"""One module for each command; each imports what it needs when it runs, so that the others stay quick."""
