"""Level 3, placement, and the size of elastic Jobs. `muster.gang` decides; here it is observed and written."""

from muster.controllers.scheduler.gangs import BINDING_ANNOTATION, GANG_ANNOTATION
from muster.controllers.scheduler.scheduler import Scheduler

__all__ = ["BINDING_ANNOTATION", "GANG_ANNOTATION", "Scheduler"]
