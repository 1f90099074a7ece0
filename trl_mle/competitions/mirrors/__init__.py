"""
Synthetic stand-ins for the 12 MLE-bench competitions: the same files, columns and submission format, but with a
synthetic signal, so that they need no download. A mirror and its labels depend only on its number of rows and its
seed: a program that can import this package can reproduce the labels.
"""

from trl_mle.competitions.mirrors.making import FACTS, MIRRORS, PREFIX, load_mirror, make_mirror


__all__ = ["FACTS", "MIRRORS", "PREFIX", "load_mirror", "make_mirror"]
