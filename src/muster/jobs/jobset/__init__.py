"""JobSets: which Jobs there are, when they start, and what becomes of the whole. Pure; the rules are upstream's."""
