"""The annotations by which a pod tells simulated nodes how long it runs and how it ends."""

START_TIME, RUN_TIME, STOP_TIME = "muster.dev/start-time", "muster.dev/run-time", "muster.dev/stop-time"
EXIT_CODE = "muster.dev/exit-code"
