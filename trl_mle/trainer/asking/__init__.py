"""What is asked next: the dataset, and the solutions that prompts show."""
