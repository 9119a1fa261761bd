"""Training that goes on where it was: what it needs for that is kept in `MUSTER_STATE`, which outlives its attempts.

    muster run --workers 2 --retries 3 -- python examples/resume.py
    muster run --workers 2 --time 1h --signal USR1@60 -- python examples/resume.py

End its workers while they run, as with `pkill -9 -f "^python examples/resume.py"`: all of them start anew, each at the
step after the last that it kept. On USR1, which comes before the time is up, it keeps what it has and ends well. STEPS
and STEP_SECONDS in the environment say how long it takes.
"""

import json
import os
import signal
from pathlib import Path
from threading import Event

STEPS = int(os.environ.get("STEPS", "20"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.5"))
CHECKPOINT = Path(os.environ["MUSTER_STATE"], f"rank-{os.environ['RANK']}.json")


def load() -> dict[str, float]:
    """What the attempt before kept, or the beginning."""
    try:
        return json.loads(CHECKPOINT.read_text())
    except FileNotFoundError:
        return {"step": 0, "weight": 0.0}


def save(state: dict[str, float]) -> None:
    """In one move, so that a worker that is killed meanwhile leaves the checkpoint before this one, whole."""
    new = CHECKPOINT.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(CHECKPOINT)


def main() -> None:
    """Train, and keep every step."""
    told_to_end = Event()
    signal.signal(signal.SIGUSR1, lambda *_: told_to_end.set())
    state = load()
    print(f"attempt {os.environ.get('MUSTER_ATTEMPT', '0')} begins at step {state['step']}")
    while state["step"] < STEPS and not told_to_end.wait(STEP_SECONDS):
        state = {"step": state["step"] + 1, "weight": state["weight"] + 0.5 * (1 - state["weight"])}
        save(state)
    print(f"kept {state['step']} of {STEPS} steps, weight {state['weight']:.4f}")


main()
