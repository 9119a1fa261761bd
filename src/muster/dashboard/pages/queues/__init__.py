"""The pages about queues: the tree of Cohorts, a single queue, and changes of queues."""

from muster.dashboard.pages.queues import deeds, one, tree
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*tree.ROUTES, *deeds.ROUTES, *one.ROUTES)
