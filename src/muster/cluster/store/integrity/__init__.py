"""How damage of what is on disk is told from what was written, and what is done about it.

Every row carries a checksum of all that it says. `mark` is a small file of its own that says how far writes were
acknowledged, and what the checksums of all rows up to there add up to: it misses rows that are gone, of another time or
of another database. `inspection` reads a database without changing it and checks both. What is damaged is never opened
for writing: `salvage` takes the rows that are whole from the pages themselves, and `archive` makes a new database of
them, as of a backup.
"""
