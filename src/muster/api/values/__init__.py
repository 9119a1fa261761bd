"""The values of fields and their notations: amounts, times, sets of indexes, selectors. All functions are pure."""
