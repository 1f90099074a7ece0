"""Reports on training runs, as plots and an HTML page, from the files of the runs."""

from trl_mle.report.learning_curves import plot_learning_curves
from trl_mle.report.page import write_report


__all__ = ["plot_learning_curves", "write_report"]
