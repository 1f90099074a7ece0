"""What measurement has not shown to help. Nothing in the rest of the package uses it, and it may change or go."""
