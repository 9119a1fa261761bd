"""Holds the controllers' shells: each reads objects through informers, calls a decision core, and writes its plan."""
