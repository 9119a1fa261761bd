"""The kinds of jobs that MultiKueue mirrors: a copy in a worker cluster, whose status the manager's job shows. Pure."""
