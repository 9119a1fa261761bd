"""Move a cluster from Kueue's manager to Muster's engine, and back.

The state of a move is read from the cluster each time: `clusterstate.py` reads, `takeover.py` and `handback.py` decide
the remaining steps, and `carrying.py` takes the first of them and reads again. So a second run continues where the
first was killed.
"""
