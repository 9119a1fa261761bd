"""Draw the outcome of a simulation: each module answers one question with a section of `report.html`."""
