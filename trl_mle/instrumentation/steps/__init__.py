"""Finds the steps of a program by the names of its calls, and by what is known of their arguments."""
