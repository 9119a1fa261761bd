"""Resizes elastic Jobs while they run (kubernetes KEP-3715): by quota, by room on nodes; and tells their workers."""
