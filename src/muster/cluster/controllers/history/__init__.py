"""The recorder of ended runs, for `muster history`."""
