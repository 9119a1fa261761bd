"""Makes the deeds about jobs and CronJobs: each asks about one object, and acts on that object only.

The form of a page has the UID of the object that the page asked about. The action gets the object as it is read then,
and makes its writes on the condition that the object still has that UID.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.dashboard.pages.identity import read_names, require_same
from muster.dashboard.visits import Deed, PageError, Visit, make_address

T = TypeVar("T")

_NOT_FOUND, _CONFLICT = 404, 409


class Subject(Struct, Generic[T], frozen=True):
    """A kind of object that deeds change.

    room: the first part of the object's address. kind: the word for it in errors. read: returns the object as the
    server has it now; raises `PageError` if it is gone. find_uid: returns the UID of the object that was read.
    """

    room: str
    kind: str
    read: Callable[[Visit], Awaitable[T]]
    find_uid: Callable[[T], str]

    def find_page(self, visit: Visit, _: Mapping[str, str] | None = None) -> str:
        """Return the address of the page of the object that a visit names."""
        return make_address(self.room, *read_names(visit, self.kind))


class Question(Struct, frozen=True):
    """The content of the page that asks before a deed.

    uid: of the object. will: sentences on what will happen. fields: the form's fields.
    """

    uid: str
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
    """Return a deed, which is the page that asks before a change of an object, and the change.

    choice: the last part of its address. title: with `{}` for the name of the object. button: its label. ask: returns
    the content of the page; raises `PageError` if the change is impossible. act: makes the change, and returns a
    sentence. danger: whether something ends. after: returns the address where the viewer goes then; None for the
    object's page.
    """

    async def view(visit: Visit) -> Mapping[str, Any]:
        _, name = read_names(visit, subject.kind)
        question = await ask(visit)
        about = {"title": title.format(name), "button": button, "danger": danger, "back": subject.find_page(visit)}
        return about | {"will": question.will, "fields": question.fields, "uid": question.uid}

    async def change(visit: Visit, form: Mapping[str, str]) -> str:
        _, name = read_names(visit, subject.kind)
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

    pattern = f"/{subject.room}/{{namespace}}/{{name}}/{choice}"
    return Deed(pattern, view, change, after if after is not None else subject.find_page, "jobs")


def make_sentence_about(name: str, error: UserError) -> str:
    """Return the message of an error as a sentence.

    name: of an object, which keeps its spelling at the beginning of the sentence, too.
    """
    text = str(error)
    return text if text.startswith(name) else text[:1].upper() + text[1:]
