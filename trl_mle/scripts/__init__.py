"""Scripts behind the commands."""
