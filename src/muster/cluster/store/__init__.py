"""Where the embedded cluster keeps its objects: durable, revisioned, watchable."""
