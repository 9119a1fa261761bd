"""The commands, in packages by a user's task. Each command is a module named after it, with `command` in it.

A command imports its modules when it runs, so that other commands start fast. `muster.cli.main` lists the commands.
"""
