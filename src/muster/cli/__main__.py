"""`python -m muster.cli`: the same command without its script."""

from muster.cli.main import main

main()
