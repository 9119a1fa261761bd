"""Explain why a job does not run, by the six levels that it passes and its state on each."""

from muster.insight.why.levels import describe_levels, join_levels
from muster.insight.why.readings import DetailTable, JobLevel, JobReadings

__all__ = ["DetailTable", "JobLevel", "JobReadings", "describe_levels", "join_levels"]
