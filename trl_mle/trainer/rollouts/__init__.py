"""Rollouts whose programs run ahead of the step that trains on them."""
