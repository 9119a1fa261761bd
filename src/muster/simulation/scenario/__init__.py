"""Defines scenarios, reads them with their files, and turns their work into jobs."""
