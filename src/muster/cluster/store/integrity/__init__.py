"""Detect damage of the files on disk, and recover from it.

Every row has a checksum of all its columns. `mark` is a small file of its own that stores up to which revision writes
were acknowledged, and the sum of all checksums up to there. So it detects missing rows, and rows of another time or of
another database. `inspection` reads a database without changing it and checks both. A damaged database is never opened
for writing: `salvage` takes the undamaged rows from the pages themselves, and `archive` makes a new database of them,
like one from a backup.
"""
