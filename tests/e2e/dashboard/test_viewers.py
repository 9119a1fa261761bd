"""Several viewers of one server in real browsers: rights, strangers' texts, a removed user and a killed server."""

import json
import os
import signal
import ssl
import subprocess
import urllib.request
from base64 import b64decode
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import Visit
from tests.e2e.dashboard.test_pages import HOSTILE, LOOKS

from muster.actions.server.home import Home

REPORT = "<!DOCTYPE html><title>r</title><p id=p>before</p><script>document.getElementById('p').textContent=%s</script>"
READ_COOKIE = "(() => { try { return 'cookie ' + document.cookie } catch (e) { return 'kept out' } })()"

JOB_OF_A_STRANGER = f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: odd
  annotations: {{note: "{HOSTILE}", "example.com/script": "</script><script>alert(1)</script>"}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: "{HOSTILE}", command: [sleep, "1000", "{HOSTILE}"]}}]
"""

EVENT_BY_A_STRANGER = f"""
apiVersion: v1
kind: Event
metadata: {{name: odd.1}}
involvedObject: {{apiVersion: batch/v1, kind: Job, name: odd, namespace: default, uid: %s}}
type: Warning
reason: "{HOSTILE}"
message: "{HOSTILE} <!--/piece--> <!--piece x-->"
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
source: {{component: "{HOSTILE}"}}
"""


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster with a job of its owner, one of a stranger, one that ended, and a report of a simulation."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:4,cpu=8,memory=32Gi")
    shared_muster("run", "--detach", "--name", "owners", "--", "sleep", "1000")
    shared_muster("run", "--detach", "--name", "ended", "--", "sleep", "1000")
    shared_muster("cancel", "ended")
    shared_muster("apply", "-f", "-", input=JOB_OF_A_STRANGER)
    [uid] = [job["uid"] for job in json.loads(shared_muster("ps", "-o", "json").stdout) if job["name"] == "odd"]
    shared_muster("apply", "-f", "-", input=EVENT_BY_A_STRANGER % uid)
    report = shared_muster.home / "simulations" / "what-if" / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text(REPORT % READ_COOKIE)
    return shared_muster


def admit(cluster: Muster, name: str, namespace: str, home: Path) -> Muster:
    """Add a user, and return the user's own commands."""
    line = cluster("user", "add", name, "--namespace", namespace).stdout
    user = Muster(home)
    subprocess.run(["sh", "-c", line], env=user.env(), check=True, capture_output=True)
    return user


def ask_for_link(user: Muster) -> str:
    """Return a link to the pages of the server itself, asked for with the user's credential."""
    config = yaml.safe_load((user.home / "login.kubeconfig").read_text())
    server, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
    trust = ssl.create_default_context(cadata=b64decode(server["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{server['server']}/ui/links", b"", headers, method="POST")
    with urllib.request.urlopen(request, context=trust) as answer:
        link: str = json.load(answer)["url"]
        return link


def test_two_viewers_see_and_do_what_their_rights_allow(cluster: Muster, visit: Visit, tmp_path: Path) -> None:
    cluster("apply", "-f", "-", input="{apiVersion: v1, kind: Namespace, metadata: {name: vision}}")
    ada = admit(cluster, "ada", "vision", tmp_path / "ada")
    ada("run", "--detach", "--name", "hers", "--", "sleep", "1000")
    hers, owners = visit(ada, link=ask_for_link(ada)), visit(cluster)
    page = hers.open("/ui/jobs?namespace=vision")
    page.get_by_role("link", name="hers", exact=True).wait_for()
    seen = owners.open("/ui/jobs")
    seen.get_by_role("link", name="hers", exact=True).wait_for()
    seen.get_by_role("link", name="owners", exact=True).wait_for()
    for path in (
        "/ui/jobs",
        "/ui/jobs/default/owners",
        "/ui/jobs/default/owners/output",
        "/ui/jobs/default/owners/cancel",
    ):
        hers.open(path)
        page.get_by_role("heading", level=1).wait_for()
        page.get_by_text("forbidden").wait_for()
    hers.open("/ui/simulations")
    assert page.get_by_text("what-if").count() == 0
    hers.open("/ui/jobs?namespace=vision")
    cluster("user", "remove", "ada")
    page.reload()
    page.get_by_role("heading", name="Sign in").wait_for()


def test_an_open_page_outlives_a_killed_server(muster: Muster, visit: Visit) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:1,cpu=8")
    muster("run", "--detach", "--name", "before", "--", "sleep", "1000")
    visitor = visit(muster)
    port = visitor.url.rpartition(":")[2]
    page = visitor.open("/ui/jobs/default/before")
    page.locator(".title .state").get_by_text("Running").wait_for()
    server = Home(muster.home).server_pid()
    assert server is not None
    os.kill(server, signal.SIGKILL)
    page.get_by_text("The server does not answer").wait_for()
    muster("up", "--detach", "--port", port)
    page.get_by_text("The server does not answer").wait_for(state="hidden")
    muster("cancel", "before")
    page.locator(".title .state").get_by_text("Cancelled").wait_for()


def test_what_a_stranger_wrote_into_a_job_is_text(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open("/ui/jobs/default/odd")
    page.get_by_text(f"{HOSTILE} <!--/piece--> <!--piece x-->").wait_for()
    for path in ("/ui/jobs/default/odd", "/ui/jobs?text=odd", "/ui/", "/ui/nodes", "/ui/history"):
        visitor.open(path)
        assert page.locator("img:not(.brand img)").count() == 0, path
        assert page.locator("main script").count() == 0, path
    assert visitor.complaints == []


def test_a_report_opens_in_a_sandbox(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open("/ui/simulations")
    page.get_by_role("link", name="what-if").click()
    page.get_by_text("kept out").wait_for()


PAGES = {"history": "/ui/history", "clusters": "/ui/clusters", "simulations": "/ui/simulations"}


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_the_pages(cluster: Muster, visit: Visit, pictures: Path | None, look: str) -> None:
    visitor = visit(cluster, **LOOKS[look])
    for name, path in PAGES.items():
        page = visitor.open(path)
        page.wait_for_load_state()
        assert visitor.check_accessibility() == [], name
        sideways = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not sideways, f"{name} does not scroll sideways"
        visitor.picture(f"{name}-{look}", pictures)
