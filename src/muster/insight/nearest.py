"""Find the known word that a user may have meant by an unknown one. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

# The minimum similarity of a word, and of an option. With less, `--time` would be suggested for `--image`.
_LIKENESS, _LIKENESS_OF_OPTIONS = 0.6, 0.7


def find_nearest(word: str, known: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the known word that the user probably meant by `word`; "" if no known word is similar.

    elsewhere: the known word with the same meaning, by the word of another system; `word` may misspell that, too.
    """
    if word in elsewhere:
        return elsewhere[word]
    if len(word.lstrip("-")) < 2:
        return ""
    from difflib import get_close_matches

    known = list(known)
    begun = [one for one in known if one.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    cutoff = _LIKENESS_OF_OPTIONS if word.startswith("-") else _LIKENESS
    named = dict(elsewhere) | {one: one for one in known}
    bare = {one.lstrip("-"): name for one, name in named.items()}  # the dashes of options do not count as similarity
    matches = get_close_matches(word.lstrip("-"), bare, n=1, cutoff=cutoff)
    return bare[matches[0]] if matches else ""
