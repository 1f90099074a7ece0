"""What users launch."""
