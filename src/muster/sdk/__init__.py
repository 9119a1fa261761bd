"""The Python SDK: run functions and commands as gangs, from a program or a notebook.

As in the command line, `muster.actions` changes jobs, and `muster.insight` reads them. This package transfers functions
to workers, and their results back.
"""
