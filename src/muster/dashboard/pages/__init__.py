"""The pages: for each, what it shows, found by the readers of `muster.insight` with the viewer's rights."""

from muster.dashboard.pages import jobs, nodes, overview, queues
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*overview.ROUTES, *queues.ROUTES, *nodes.ROUTES, *jobs.ROUTES)
"""All pages, the more particular addresses first."""
