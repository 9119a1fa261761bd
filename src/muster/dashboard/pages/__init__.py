"""The pages: for each, what it shows, found by the readers of `muster.insight` with the viewer's rights."""

from muster.dashboard.pages import jobs
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*jobs.ROUTES,)
"""All pages, the more particular addresses first."""
