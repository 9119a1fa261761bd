"""The controllers' shells: each reads objects through informers, calls a pure decision, and writes the plan."""
