"""Why a job does not run: the six levels that it goes through, and where it stands on each."""

from muster.insight.why.levels import describe_levels, join_levels
from muster.insight.why.readings import JobReadings, Level

__all__ = ["JobReadings", "Level", "describe_levels", "join_levels"]
