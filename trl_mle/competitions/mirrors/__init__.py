"""Synthetic stand-ins for the 12 MLE-bench competitions: the same files, columns and submission format, but with a
synthetic signal, which depends only on the number of rows and the seed."""

from trl_mle.competitions.mirrors.making import FACTS, MIRRORS, PREFIX, load_mirror, make_mirror


__all__ = ["FACTS", "MIRRORS", "PREFIX", "load_mirror", "make_mirror"]
