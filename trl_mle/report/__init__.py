"""Reports on a training run, as plots and an HTML page, from its files."""

from trl_mle.report.page import write_report


__all__ = ["write_report"]
