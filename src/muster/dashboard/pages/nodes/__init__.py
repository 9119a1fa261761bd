"""The pages about nodes: the map and the list, a single node, and its cordon."""

from muster.dashboard.pages.nodes import deeds, nodemap, one
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (*nodemap.ROUTES, *deeds.ROUTES, *one.ROUTES)
