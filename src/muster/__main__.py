"""`python -m muster`: the same command without its script."""

from muster.cli.entry import main

main()
