"""The recorder of finished runs of jobs, for `muster history`."""
