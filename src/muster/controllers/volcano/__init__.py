"""Run Volcano's Jobs as Volcano's own controller would."""

from muster.controllers.volcano.controller import VolcanoJobController

__all__ = ["VolcanoJobController"]
