"""Runs the JobSet controller: makes Jobs for JobSets; `muster.jobs.jobset` decides, this observes and writes."""

from muster.controllers.jobset.controller import JobSetController

__all__ = ["JobSetController"]
