"""The shim, which runs one attempt of one container, keeps its log and its exit record, and may outlive the server.

Every container's start waits for it, so it imports nothing slow: no `signal`, `json`, `pathlib`, `typing`.

Invariants
- An attempt runs once. The shim claims it by linking a file that it has already locked to the name `state`, which fails
  if another shim came first. A reader that finds `state` unlocked knows that the shim is dead.
- The lock is a POSIX record lock: the kernel names its holder (F_GETLK), so no process id is ever written down that
  could later mean another process. No code here may open `state` a second time, because closing that would drop the
  lock.
- Once the shim is gone, no process of the container is left. The shim is the first process of the container's pid
  namespace, or, without one, the reaper and killer of all its descendants.
- All mounts are made in a private mount namespace that ends with its last process.
- The exit record overwrites blocks that the claim allocated, so a full disk cannot lose it.
"""
