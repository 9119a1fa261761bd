"""The size of elastic Jobs while they run (KEP-3715): by quota, by room on nodes, and what their workers are told."""
