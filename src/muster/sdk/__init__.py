"""The Python interface: functions and commands as gangs, from a program or a notebook.

What is done to jobs is done by `muster.actions`, as for the command line; what is told of them comes from
`muster.insight`. This package brings functions to workers and their outcomes back.
"""
