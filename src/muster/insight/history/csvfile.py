"""Write finished runs as CSV. Control characters in texts of other users are escaped. Pure."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from muster.insight.history.runs import Run, make_row
from muster.insight.text import escape_controls

# The characters with which a formula in a spreadsheet begins.
_FORMULA = ("=", "+", "-", "@")

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def format_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows of the history as CSV. The header is written even if there are no rows.

    Times are in UTC. A text that a spreadsheet would read as a formula is escaped.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(make_row(Run("", "", "", "", "Completed", _EPOCH, _EPOCH)))
    writer.writerows([_format_csv_value(value) for value in one.values()] for one in rows)
    return out.getvalue()


def _format_csv_value(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return json.dumps(value)
    text = escape_controls(" ".join(value) if isinstance(value, list) else value)
    return f"'{text}" if text.startswith(_FORMULA) else text
