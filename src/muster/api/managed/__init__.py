"""The decisions about managed objects when they are written: defaults, rules and gates. All functions are pure."""
