"""One pod on its node: what is known of it, what is done about it, what is reported."""
