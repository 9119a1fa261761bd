"""The pages: for each, what it shows, found by the readers of `muster.insight` with the viewer's rights."""

from muster.dashboard.pages import job, jobdeeds, jobs, output
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*job.ROUTES, *jobdeeds.ROUTES, *jobs.ROUTES, *output.ROUTES)
"""All pages, the more particular addresses first."""
