"""Draw values and arrivals from a scenario's distributions. Pure: the same random generator gives the same values."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from itertools import repeat
from math import log
from random import Random

from muster.api.values import durations
from muster.simulation.scenario.logs.jobs import MOST
from muster.simulation.scenario.model import Arrivals, Burst, Distribution, Value, Weekly

DAY = 86_400.0
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SHORT_HOUR = re.compile(r"^(?=\d:)")
_HOUR = 3600.0
# With a larger sigma, values exceed the range of floating-point numbers.
_MOST_SIGMA = 100.0
# The maximum number of jobs in a burst. More are probably a mistake, and would fill the memory.
_MOST_BURST = 100_000_000

Draw = Callable[[Random], float]
Parse = Callable[[str | float], float]
Samples = Mapping[str, Sequence[float]]
"""The values in the files of empirical distributions, by file."""


class DrawError(ValueError):
    """A value that cannot be drawn.

    path: the path of the field, relative to the value.
    why: the reason, for users.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.path = path
        self.why = why


def parse_seconds(text: str | float) -> float:
    """Return a duration in seconds: a number of seconds, or Go's format (`1h30m`) with `d` for days.

    Raises `DrawError` if the text is not a duration, or is negative.
    """
    try:
        seconds = float(text) if isinstance(text, int | float) else _parse_span(text)
    except durations.DurationError as error:
        raise DrawError("", str(error).removeprefix("time: ")) from None
    if not 0 <= seconds < float("inf"):
        raise DrawError("", f"{text} is negative" if seconds < 0 else f"{text} is no time span")
    return seconds


def parse_moment(text: str | float, start: datetime) -> float:
    """Return a time in seconds from the start, from a duration since the start, a date and time, or a time of day.

    A time of day is its first occurrence from the start on. A time without a zone is in the start's time zone.

    Raises `DrawError` if the text is none of these, or is a time before the start.
    """
    if not isinstance(text, str) or not (":" in text or _DATE.match(text)):
        return parse_seconds(text)
    try:
        if _DATE.match(text):
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=start.tzinfo)
        else:
            clock = time.fromisoformat(_SHORT_HOUR.sub("0", text))
            zone = clock.tzinfo or start.tzinfo
            moment = datetime.combine(start.astimezone(zone), clock, zone)
            moment += timedelta(days=moment < start)
    except ValueError:
        raise DrawError("", f"{text} is no time span, date and time, or time of day") from None
    if moment < start:
        raise DrawError("", f"{text} is before the start, {start.isoformat()}")
    return (moment - start).total_seconds()


def _parse_span(text: str) -> float:
    if text.startswith("-"):
        return -_parse_span(text[1:])
    days, found, rest = text.partition("d")
    if found and days.isascii() and days.isdigit():
        return int(days) * DAY + (durations.parse(rest) / durations.SECOND if rest else 0.0)
    return durations.parse(text) / durations.SECOND


def parse_limit(text: str | float) -> float:
    """Return a time limit in seconds. Raises `DrawError` if it is not a positive duration."""
    seconds = parse_seconds(text)
    if seconds == 0:
        raise DrawError("", "a limit of 0 ends a job at its start: leave out limit for jobs without one")
    return seconds


def parse_number(text: str | float) -> float:
    """Return a value as a number. Raises `DrawError` for any text."""
    if isinstance(text, str):
        raise DrawError("", f"{text!r} is no number")
    return float(text)


def parse_size(text: str | float) -> float:
    """Return a number of pods of at least 1. Raises `DrawError` for any text, and for less than 1."""
    size = parse_number(text)
    if not size >= 1:
        raise DrawError("", f"{size:g} is no number of pods: 1 is the least")
    return size


def parse_value(text: str | float, parse: Parse) -> float:
    """Return a constant value of jobs.

    Numbers of pods and priorities must be integers of 32 bits, unlike the mean of a distribution.
    Raises the errors of `parse`, and `DrawError` for a number that must be an integer.
    """
    value = parse(text)
    if parse in _WHOLE:
        if not value.is_integer():
            raise DrawError("", f"{value:g} is no whole number")
        if abs(value) > MOST:
            raise DrawError("", f"{value:.0f} has more than 32 bits")
    return value


# The parsers of numbers that are rounded after they are drawn.
_WHOLE: Collection[Parse] = (parse_number, parse_size)
# The parsers of the values of work that may be drawn, by field.
PARSERS: Mapping[str, Parse] = {
    "run_time": parse_seconds,
    "limit": parse_limit,
    "startup": parse_seconds,
    "size": parse_size,
    "priority": parse_number,
}


def make_draw(value: Value, parse: Parse, samples: Samples) -> Draw:
    """Return a function that draws a random value, or that always returns the value if it is a constant.

    parse: parses each number.
    samples: the values of empirical distributions, by file.

    Raises `DrawError` for an invalid value, and unless exactly one distribution is set.
    """
    if not isinstance(value, Distribution):
        return _draw_constant(parse_value(value, parse))
    chosen = [name for name in value.__struct_fields__ if getattr(value, name) is not None]
    if len(chosen) != 1:
        raise DrawError("", f"exactly one of {', '.join(value.__struct_fields__)} is needed")
    try:
        return _make_draw(value, parse, samples)
    except DrawError as error:
        raise DrawError(f".{chosen[0]}{error.path}", error.why) from None


def _make_draw(value: Distribution, parse: Parse, samples: Samples) -> Draw:
    if value.uniform is not None:
        low, high = (parse_value(end, parse) for end in (value.uniform.low, value.uniform.high))
        if high < low:
            raise DrawError("", "to is less than from")
        # each integer of the range, including the first and last, gets an interval of the same length before rounding
        margin = 0.5 if parse in _WHOLE else 0.0
        return lambda random: random.uniform(low - margin, high + margin)
    if value.exponential is not None:
        mean = parse(value.exponential.mean)
        if mean <= 0:
            raise DrawError(".mean", "must be positive")
        return lambda random: random.expovariate(1 / mean)
    if value.lognormal is not None:
        median, sigma = parse(value.lognormal.median), value.lognormal.sigma
        if median <= 0 or not 0 <= sigma <= _MOST_SIGMA:
            raise DrawError("", f"median must be positive, and sigma from 0 to {_MOST_SIGMA:g}")
        return lambda random: random.lognormvariate(log(median), sigma)
    if value.empirical is not None:
        known = samples[value.empirical]
        if not known:
            raise DrawError("", f"{value.empirical} holds no value")
        return lambda random: random.choice(known)
    assert value.constant is not None, "one of them is set"
    return _draw_constant(parse_value(value.constant, parse))


def _draw_constant(value: float) -> Draw:
    return lambda _: value


def draw_arrivals(arrivals: Arrivals, start: datetime, random: Random) -> Iterator[float]:
    """Yield the arrival times of jobs, in seconds from the start, in order; endlessly, except for bursts.

    Raises `DrawError` unless exactly one kind of arrivals is set and valid.
    """
    if sum(getattr(arrivals, name) is not None for name in arrivals.__struct_fields__) != 1:
        raise DrawError("", f"exactly one of {', '.join(arrivals.__struct_fields__)} is needed")
    if arrivals.burst is not None:
        return _draw_bursts(arrivals.burst, start)
    if arrivals.weekly is not None:
        return _draw_weekly(arrivals.weekly, start, random)
    if arrivals.poisson is not None:
        rate = 1 / _parse_interval(".poisson.every", arrivals.poisson.every)
        return _accumulate(lambda: random.expovariate(rate))
    assert arrivals.uniform is not None, "one of them is set"
    every = _parse_interval(".uniform.every", arrivals.uniform.every)
    return _accumulate(lambda: every)


def _parse_interval(path: str, text: str | float) -> float:
    try:
        every = parse_seconds(text)
    except DrawError as error:
        raise DrawError(path, error.why) from None
    if every == 0:
        raise DrawError(path, "must be positive")
    return every


def _accumulate(step: Callable[[], float]) -> Iterator[float]:
    at = 0.0
    while True:
        at += step()
        yield at


def _draw_bursts(burst: Burst, start: datetime) -> Iterator[float]:
    if not 1 <= burst.count <= _MOST_BURST:
        raise DrawError(".burst.count", f"must be from 1 to {_MOST_BURST}")
    try:
        times = sorted(parse_moment(at, start) for at in burst.at)
    except DrawError as error:
        raise DrawError(".burst.at", error.why) from None
    return (at for one in times for at in repeat(one, burst.count))


def _draw_weekly(weekly: Weekly, start: datetime, random: Random) -> Iterator[float]:
    """Yield random arrivals, endlessly, with a rate that depends on the hour and the day.

    Arrivals are drawn at the highest rate of the week, and dropped in proportion to the rate of their hour (thinning).
    Raises `DrawError` for invalid weights.
    """
    for name, weights, number in (("hours", weekly.hours, 24), ("days", weekly.days, 7)):
        if len(weights) != number or min(weights) < 0 or sum(weights) == 0:
            raise DrawError(f".weekly.{name}", f"{number} weights are needed, none negative and one positive")
    highest = max(weekly.hours) * max(weekly.days)
    mean = sum(weekly.hours) / 24 * sum(weekly.days) / 7
    rate = highest / mean / _parse_interval(".weekly.every", weekly.every)

    since_midnight = timedelta(hours=start.hour, minutes=start.minute, seconds=start.second).total_seconds()

    def draw() -> Iterator[float]:
        for at in _accumulate(lambda: random.expovariate(rate)):
            days, seconds = divmod(since_midnight + at, DAY)
            weight = weekly.hours[int(seconds // _HOUR)] * weekly.days[(start.weekday() + int(days)) % 7]
            if random.random() * highest < weight:
                yield at

    return draw()
