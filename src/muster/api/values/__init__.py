"""Values of fields: amounts, times, sets of indexes, selectors, and their languages. Pure."""
