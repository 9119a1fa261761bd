"""Make the deeds about jobs, CronJobs, queues and nodes: changes that a page asks the viewer to confirm.

The form contains the UID of the object that the page showed. The change reads the object again, and writes only if it
still has that UID.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.dashboard.pages.identity import require_same
from muster.dashboard.visits import Deed, PageError, Visit, make_address

T = TypeVar("T")

Will = tuple[list[str], list[dict[str, Any]]]
"""Sentences on what will happen, and the form's fields."""

_NOT_FOUND, _CONFLICT = 404, 409


class Subject(Struct, Generic[T], frozen=True):
    """A kind of object that deeds change.

    pattern: the path of the object's page, in which the segment {name} is the object's name.
    section: the section of the menu.
    read: returns the current object from the server; raises `PageError` if it no longer exists.
    find_uid: returns the UID of the object that was read.
    """

    pattern: str
    section: str
    read: Callable[[Visit], Awaitable[T]]
    find_uid: Callable[[T], str]


class Question(Struct, frozen=True):
    """The content of the page that asks the viewer to confirm a deed.

    uid: the UID of the object.
    name: the name of the object in the title.
    will: sentences about what will happen.
    fields: the fields of the form.
    """

    uid: str
    name: str
    will: Sequence[str]
    fields: Sequence[Mapping[str, Any]] = ()


def make_deed(
    subject: Subject[T],
    choice: str,
    title: str,
    button: str,
    ask: Callable[[Visit], Awaitable[Question]],
    act: Callable[[Visit, T, Mapping[str, str]], Awaitable[str]],
    *,
    danger: bool = False,
    after: Callable[[Visit, Mapping[str, str]], str] | None = None,
) -> Deed:
    """Return a deed: a page that asks for confirmation of a change of an object, and the change.

    choice: the last segment of the deed's address.
    title: the title, with `{}` for the object's name in the question.
    button: the label of the button.
    ask: returns the content of the page; raises `PageError` if the change is impossible.
    act: makes the change, and returns a sentence.
    danger: whether something ends.
    after: returns the address of the page that follows; None for the object's page.
    """

    async def view(visit: Visit) -> Mapping[str, Any]:
        question = await ask(visit)
        about = {"title": title.format(question.name), "button": button, "danger": danger, "back": find_page(visit, {})}
        return about | {"will": question.will, "fields": question.fields, "uid": question.uid}

    async def change(visit: Visit, form: Mapping[str, str]) -> str:
        name = visit.names["name"]
        obj = await subject.read(visit)
        uid = subject.find_uid(obj)
        require_same(form, uid, name)
        try:
            return await act(visit, obj, form)
        except UserError as error:
            raise PageError("This cannot be done", make_sentence_about(name, error), _CONFLICT) from None
        except ApiError as error:
            if error.code in (_NOT_FOUND, _CONFLICT):
                require_same({"uid": uid}, subject.find_uid(await subject.read(visit)), name)
            raise

    return Deed(f"{subject.pattern}/{choice}", view, change, after if after is not None else find_page, subject.section)


def find_page(visit: Visit, _: Mapping[str, str]) -> str:
    """Return the address of the object's page: the visited path without its last segment, the action."""
    return make_address(*visit.path.strip("/").split("/")[:-1])


def make_sentence_about(name: str, error: UserError) -> str:
    """Return the message of an error as a sentence.

    name: the name of an object, which keeps its spelling at the start of the sentence.
    """
    text = str(error)
    return text if text.startswith(name) else text[:1].upper() + text[1:]
