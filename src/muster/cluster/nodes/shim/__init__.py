"""The shim, which runs one attempt of one container, writes its log and its exit record, and may outlive the server.

Every container's start waits for the shim, so it imports nothing slow: no `signal`, `json`, `pathlib`, `typing`.

Invariants

- An attempt runs once. The shim claims the attempt by linking a file that it has already locked to the name `state`.
  The link fails if another shim came first. A reader that finds `state` unlocked knows that the shim is dead.
- The lock is a POSIX record lock. The kernel names its holder (F_GETLK), so no PID is ever written to disk that could
  later belong to another process. No code here may open `state` a second time, because closing that descriptor would
  drop the lock.
- After the shim has exited, no process of the container is left. The shim is the first process of the container's PID
  namespace. Without a namespace, it reaps and kills all its descendants.
- All mounts are made in a private mount namespace, which disappears with its last process.
- The exit record overwrites blocks that the claim allocated, so a full disk cannot lose it.
"""
