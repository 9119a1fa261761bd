"""Nodes of kind `simulated`: they play their pods' lives by rule."""
