"""Move a cluster from Kueue's manager to Muster's engine, and back.

A move keeps no state of its own. `clusterstate.py` reads the cluster, `takeover.py` and `handback.py` plan the
remaining steps, and `carrying.py` executes the first step and then reads and plans again. A second run therefore
continues where an interrupted run stopped.
"""
