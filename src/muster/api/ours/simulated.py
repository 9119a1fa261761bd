"""What a pod tells the simulated nodes that play it, in annotations that are ours: for how long, and how it ends."""

START_TIME, RUN_TIME, STOP_TIME = "muster.dev/start-time", "muster.dev/run-time", "muster.dev/stop-time"
EXIT_CODE = "muster.dev/exit-code"
