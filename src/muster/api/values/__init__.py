"""What fields hold: amounts, times, sets of indexes, selectors, and the languages that these are written in. Pure."""
