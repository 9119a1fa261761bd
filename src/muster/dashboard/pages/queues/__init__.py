"""The pages about queues: the tree of cohorts, one queue, and what is changed of it."""

from muster.dashboard.pages.queues import deeds, one, tree
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*tree.ROUTES, *deeds.ROUTES, *one.ROUTES)
