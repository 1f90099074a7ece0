"""What training did, in pictures and on a page, from the files that it leaves."""

from trl_mle.report.learning_curves import plot_learning_curves
from trl_mle.report.page import write_report


__all__ = ["plot_learning_curves", "write_report"]
