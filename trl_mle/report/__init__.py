"""Reports on training runs, as plots and an HTML page, from the files of the runs."""

from trl_mle.report.page import write_report


__all__ = ["write_report"]
