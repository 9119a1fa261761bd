"""The pages: for each, what it shows, found by the readers of `muster.insight` with the viewer's rights."""

from muster.dashboard.pages import clusters, history, jobs, simulations
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*jobs.ROUTES, *history.ROUTES, *clusters.ROUTES, *simulations.ROUTES)
"""All pages, the more particular addresses first."""
