"""Draw the outcome of a simulation. Each module makes one section of `report.html`, for one question."""
