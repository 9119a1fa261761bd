"""Level 3, placement. `muster.gang` decides; here it is observed and written."""
