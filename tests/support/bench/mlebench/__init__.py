"""A stand-in for MLE-bench, which needs Kaggle's data: its interface, as far as trl_mle uses it, with competitions of our own."""
