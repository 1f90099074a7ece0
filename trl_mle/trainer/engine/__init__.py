"""What the trainer needs of TRL, vLLM, the policy's model and the Hub."""
