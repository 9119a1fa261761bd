"""Deliver the notification of a job's event as JSON to a URL, or by mail. This code runs in a pod of the job's user."""

import asyncio
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP
from typing import Final

import msgspec
from msgspec import Struct

from muster.actions.errors import UserError
from muster.api.ours.notify import NoticeSettings, NotifyError, TargetKind, address_of, check_target, find_kind
from muster.runtime.realclock import Clock

# Directories with sendmail that are often missing from a user's PATH.
SENDMAIL_PATH: Final = "/usr/sbin:/usr/lib:/usr/local/sbin"

_ATTEMPTS = 3
_PAUSE_SECONDS = 5
_TIMEOUT_SECONDS = 10
_PERMANENT = range(400, 500)  # status codes of a receiver after which a retry would fail, too
_BUSY = 429


class Notice(Struct, frozen=True):
    """A notification of a job's event, encoded as the body of the request to a URL.

    text, content: the same sentence, under the two names that chat services read.
    """

    job: str
    namespace: str
    event: str
    state: str
    reason: str
    text: str
    content: str


async def deliver(target: str, environment: Mapping[str, str], clock: Clock) -> None:
    """Deliver the notification that the pod's environment describes to a URL or a mail address. Raises `UserError`."""
    notice = read_notice(environment)
    try:
        kind = find_kind(check_target(target))
    except NotifyError as error:
        raise UserError(str(error)) from None
    if kind is TargetKind.URL:
        await post(target, notice, clock)
    elif sendmail := find_sendmail(environment.get("PATH", os.defpath)):
        mail(target, notice, sendmail)
    else:
        raise UserError("this machine has no sendmail")


def read_notice(environment: Mapping[str, str]) -> Notice:
    """Return the notification that the pod's environment variables describe; a missing variable counts as ""."""
    names = ("MUSTER_JOB", "MUSTER_NAMESPACE", "MUSTER_EVENT", "MUSTER_JOB_STATE", "MUSTER_JOB_REASON")
    job, namespace, event, state, reason = (environment.get(name, "") for name in names)
    sentence = f"{job}: {state.lower()}" + (f": {reason}" if reason else "")
    return Notice(job, namespace, event, state, reason, sentence, sentence)


async def post(url: str, notice: Notice, clock: Clock) -> None:
    """POST the notification to a URL; retry after a failure that may be temporary.

    Raises `UserError`. Its message omits the URL, which may be a secret.
    """
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url, msgspec.json.encode(notice), {"Content-Type": "application/json", "User-Agent": "muster"}, method="POST"
    )
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            await asyncio.to_thread(_send, request)
        except urllib.error.HTTPError as error:
            failure, is_permanent = f"HTTP status {error.code}", error.code in _PERMANENT and error.code != _BUSY
        except (OSError, ValueError) as error:  # ValueError: the response is not HTTP, or redirects to another host
            failure, is_permanent = str(getattr(error, "reason", error)), False
        else:
            return
        if is_permanent or attempt == _ATTEMPTS:
            raise UserError(f"the receiver did not take the notice: {failure}")
        await clock.sleep(_PAUSE_SECONDS)


def _send(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
        pass


def find_sendmail(path: str) -> str:
    """Return the path of the sendmail program; "" if this machine has none.

    path: the user's PATH.
    """
    return shutil.which("sendmail", path=f"{path}:{SENDMAIL_PATH}") or ""


def explain_unsent(settings: NoticeSettings, path: str, *, embedded: bool) -> str:
    """Return the reason why notifications of a job would not be sent; "" if they will be sent.

    embedded: whether the cluster is the one of `muster up`.
    path: the user's PATH.
    """
    if not embedded:
        return "only a server sends notices; start one with: muster up --detach"
    if any(find_kind(target) is TargetKind.MAIL for target in settings.targets) and not find_sendmail(path):
        return "this machine has no sendmail, which hands on mail"
    return ""


def mail(target: str, notice: Notice, sendmail: str) -> None:
    """Send the notification to a mail address with sendmail. Raises `UserError` if sendmail fails."""
    message = EmailMessage(policy=SMTP)
    message["To"] = address_of(target)
    message["Subject"] = f"[muster] {notice.job}: {notice.state.lower()}"
    message["Auto-Submitted"] = "auto-generated"
    body = {"Job": notice.job, "Namespace": notice.namespace, "State": notice.state, "Reason": notice.reason}
    message.set_content("".join(f"{name}: {value}\n" for name, value in body.items() if value))
    text = message.as_bytes(policy=SMTP.clone(linesep="\n"))
    result = subprocess.run([sendmail, "-i", "-t"], input=text, capture_output=True, check=False)
    if result.returncode:
        complaint = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"sendmail ended with exit code {result.returncode}: {complaint}")
