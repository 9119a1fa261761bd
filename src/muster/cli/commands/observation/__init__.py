"""Commands that show jobs: lists, reasons, output, use, and the dashboard. They change no objects."""
