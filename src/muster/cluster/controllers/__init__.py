"""The controllers of kube-controller-manager, as far as the embedded cluster needs them, by the objects they act on.

The packages do not build on each other, except that other packages follow custom kinds by `lifetimes.customkinds`.
"""
