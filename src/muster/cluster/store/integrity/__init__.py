"""Detect damage of the files on disk, and recover from it.

Every row has a checksum of all its columns. The `mark` is a small separate file. It contains the revision up to which
writes were acknowledged, and the sum of all checksums up to that revision. So the mark reveals missing rows, rows from
another time, and rows of another database. `inspection` reads a database without changing it and checks both. A damaged
database is never opened for writing: `salvage` takes the undamaged rows from the pages themselves, and `archive` makes
a new database from them, as from a backup.
"""
