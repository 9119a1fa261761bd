"""Commands by which a user follows jobs: lists, reasons, output, use, and the dashboard. They change nothing."""
