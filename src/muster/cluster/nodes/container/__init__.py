"""One container: how it is started, looked after, reached and ended."""
