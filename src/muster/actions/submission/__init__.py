"""Describe a gang or a sweep as its user requested it, and submit it."""
