"""A tiny policy, trained from scratch on generated programs, so that everything runs offline without a download."""
