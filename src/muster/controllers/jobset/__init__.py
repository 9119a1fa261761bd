"""The JobSet controller: makes Jobs for JobSets. `muster.jobs.jobset` decides; here it is observed and written."""

from muster.controllers.jobset.controller import JobSetController

__all__ = ["JobSetController"]
