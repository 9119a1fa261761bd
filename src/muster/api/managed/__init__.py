"""What becomes of objects that queue when they are written: defaults, rules and gates. Pure."""
