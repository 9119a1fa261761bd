"""The controllers that a real cluster brings itself, in the embedded cluster. Each room acts on one sort of object.

The rooms do not build on each other, except that other rooms follow custom kinds by `lifetimes.customkinds`.
"""
