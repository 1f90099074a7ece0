"""Advantages, and what multiplies them."""
