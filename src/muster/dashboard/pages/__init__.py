"""The pages. Each page reads its data with the readers of `muster.insight` and the viewer's rights."""

from muster.dashboard.pages import (
    clusters,
    cronjobs,
    history,
    job,
    jobdeeds,
    jobs,
    nodes,
    output,
    overview,
    podgroups,
    queues,
    simulations,
)
from muster.dashboard.visits import Route

ROUTES: tuple[Route, ...] = (
    *overview.ROUTES,
    *jobs.ROUTES,
    *cronjobs.ROUTES,
    *podgroups.ROUTES,
    *job.ROUTES,
    *jobdeeds.ROUTES,
    *output.ROUTES,
    *queues.ROUTES,
    *nodes.ROUTES,
    *history.ROUTES,
    *clusters.ROUTES,
    *simulations.ROUTES,
)
"""All pages, the more particular addresses first."""
