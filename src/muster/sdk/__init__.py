"""The Python interface: functions and commands as gangs, from a program or a notebook.

As for the command line, `muster.actions` changes jobs, and `muster.insight` reads them. This package brings functions
to workers, and their outcomes back.
"""
