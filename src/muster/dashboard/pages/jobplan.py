"""Make a forecast for a page, as `muster plan` does."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.dashboard.visits import Visit
from muster.insight.forecasts.plan import ObjectPlan
from muster.insight.reader.forecasts.plan import plan


async def plan_document(visit: Visit, kind: Kind[Any], document: dict[str, Any]) -> ObjectPlan | None:
    """Return the forecast for an object; None if the cluster lacks what it takes, or the viewer may not see that.

    Raises `ApiError`.
    """
    try:
        plans = await plan(visit.copy, [(kind, document)], visit.now)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return None
    return plans[0] if plans else None
