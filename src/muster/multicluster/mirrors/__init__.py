"""The kinds of jobs that MultiKueue mirrors: a copy in a worker cluster, and the copy's status shown here. Pure."""
