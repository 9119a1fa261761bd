"""Plans of mounts on a machine that exists only as a table of directories and links."""

import posixpath

import pytest

from muster.cluster.nodes.volumes.mounts import MIRROR_LIMIT, Mount, MountError, list_bubblewrap_arguments, plan

STAGING = "/state/attempt"


class Table:
    """Directories with their entries; a link is an entry with a target."""

    def __init__(self, directories, links=None, files=()):
        self.directories = directories
        self.links = links or {}
        self.files = set(files)

    def real(self, path):
        parts, found = path.strip("/").split("/"), ""
        for part in parts:
            found = self.links.get(f"{found}/{part}", f"{found}/{part}")
        return found or "/"

    def exists(self, path):
        return path in self.directories or path in self.files or path in self.links

    def entries(self, path):
        return self.directories.get(path)


MACHINE = Table(
    {"/": ["bin", "etc", "usr", "var"], "/etc": ["hosts", "passwd"], "/usr": ["bin"], "/usr/bin": [], "/run": ["lock"]},
    links={"/bin": "/usr/bin", "/var/run": "/run"},
    files=["/etc/hosts", "/etc/passwd"],
)


def planned(*mounts):
    return plan(mounts, STAGING, MACHINE)


def test_what_exists_is_simply_covered():
    assert planned(Mount("/etc/hosts", "/pod/hosts", is_directory=False)) == [("bind", "/etc/hosts", "/pod/hosts", "")]


def test_a_missing_path_makes_its_parent_a_mirror():
    assert planned(Mount("/etc/app/conf", "/pod/v", "sub", read_only=True)) == [
        ("mirror", "/etc", "/etc"),
        ("directory", "/etc/app/conf"),
        ("bind", "/etc/app/conf", "/pod/v", "sub"),
        ("read-only", "/etc/app/conf"),
    ]


def test_a_missing_path_in_the_root_makes_a_new_root():
    assert planned(Mount("/data", "/pod/v"), Mount("/etc/x", "/pod/w", is_directory=False)) == [
        ("mirror", STAGING, "/"),
        ("mirror", f"{STAGING}/etc", "/etc"),
        ("directory", f"{STAGING}/data"),
        ("bind", f"{STAGING}/data", "/pod/v", ""),
        ("file", f"{STAGING}/etc/x"),
        ("bind", f"{STAGING}/etc/x", "/pod/w", ""),
        ("root", STAGING),
    ]


def test_mirrors_come_before_mounts_that_they_would_hide():
    operations = planned(Mount("/etc/new", "/pod/v"), Mount("/etc/hosts", "/pod/hosts", is_directory=False))
    assert [operation[0] for operation in operations] == ["mirror", "directory", "bind", "bind"]


def test_a_mount_within_a_mount_is_made_in_it():
    assert planned(Mount("/usr/bin/inner", "/pod/w"), Mount("/usr/bin", "/pod/v")) == [
        ("bind", "/usr/bin", "/pod/v", ""),
        ("directory", "/usr/bin/inner"),
        ("bind", "/usr/bin/inner", "/pod/w", ""),
    ]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/bin", "/usr/bin"),
        ("/var/run/lock", "/run/lock"),
        ("/etc/../etc/./passwd", "/etc/passwd"),
        ("/../../etc/passwd", "/etc/passwd"),
        ("//etc/passwd", "/etc/passwd"),
        ("etc/passwd", "/etc/passwd"),
    ],
)
def test_paths_are_resolved_within_the_root(path, target):
    machine = Table({**MACHINE.directories, "/run/lock": []}, MACHINE.links, MACHINE.files)
    assert plan([Mount(path, "/pod/v")], STAGING, machine) == [("bind", target, "/pod/v", "")]


@pytest.mark.parametrize("path", ["/", "/..", "", "//"])
def test_the_root_is_no_mount_point(path):
    with pytest.raises(MountError, match="the root directory cannot be a mount point"):
        planned(Mount(path, "/pod/v"))


def test_below_a_file_there_is_nothing():
    with pytest.raises(MountError, match="below /etc/passwd, which is not a directory"):
        planned(Mount("/etc/passwd/x", "/pod/v"))


def test_a_directory_with_too_many_entries_is_not_mirrored():
    machine = Table({"/": ["big"], "/big": [str(n) for n in range(MIRROR_LIMIT + 1)]})
    with pytest.raises(MountError, match="create the directory, or use another path"):
        plan([Mount("/big/new", "/pod/v")], STAGING, machine)


def test_the_same_for_bubblewrap():
    operations = planned(Mount("/etc/app", "/pod/v", "sub", read_only=True))
    assert list_bubblewrap_arguments(operations, MACHINE) == [
        *("--dev-bind", "/", "/"),
        *("--tmpfs", "/etc"),
        *("--dev-bind-try", "/etc/hosts", "/etc/hosts"),
        *("--dev-bind-try", "/etc/passwd", "/etc/passwd"),
        *("--dir", "/etc/app"),
        *("--dev-bind", posixpath.join("/pod/v", "sub"), "/etc/app"),
        *("--remount-ro", "/etc/app"),
    ]


def test_a_new_root_for_bubblewrap_is_its_own():
    arguments = list_bubblewrap_arguments(planned(Mount("/data", "/pod/v")), MACHINE)
    assert arguments[:3] == ["--symlink", "/usr/bin", "/bin"]
    assert arguments[-4:] == ["/data", "--dev-bind", "/pod/v", "/data"]


def test_many_mounts_are_planned_one_after_the_other():
    """Each was compared with each of the others: 3,000 took the server 16 s."""
    mounts = [Mount(f"/tmp/none-{number // 2}{'/inner' * (number % 2)}", "/v") for number in range(20_000)]
    operations = plan(mounts, "/staging", Flat())
    assert sum(kind == "bind" for kind, *_ in operations) == len(mounts)
    assert [operation for operation in operations if operation[0] == "mirror"] == [("mirror", "/tmp", "/tmp")]


class Flat:
    """A machine that has nothing but /tmp."""

    def real(self, path):
        return path

    def exists(self, path):
        return path in ("/", "/tmp")

    def entries(self, path):
        return ["tmp"] if path == "/" else []
