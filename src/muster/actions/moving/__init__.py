"""Moves a cluster from Kueue's manager to Muster's engine, and back.

The state of a move is read off the cluster each time: `observed.py` reads, `takeover.py` and `handback.py` decide
what is left to do, and `carrying.py` does the first step of that and reads again. So a second run goes on where the
first was killed.
"""
