"""Run the JobSet controller: create Jobs for JobSets; `muster.jobs.jobset` decides."""

from muster.controllers.jobset.controller import JobSetController

__all__ = ["JobSetController"]
