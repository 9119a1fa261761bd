"""Resize elastic Jobs while they run (kubernetes KEP-3715), by quota and by room on nodes, and inform their workers."""
