"""Run gangs, sweeps, scripts and shells from the options of `muster run`."""
