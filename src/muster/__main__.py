"""Run the `muster` command as `python -m muster`."""

from muster.cli.entry import main

main()
