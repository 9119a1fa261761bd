"""The commands, in rooms by what a user does: a module each, named after its command, with `command` in it.

A command imports what it needs when it runs, so that the others stay quick. `muster.cli.main` lists the commands.
"""
