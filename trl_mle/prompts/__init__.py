"""What the policy is asked, and the program in its answer."""

from trl_mle.prompts.extract import extract_code
from trl_mle.prompts.prompt import scratch_prompt


__all__ = ["extract_code", "scratch_prompt"]
