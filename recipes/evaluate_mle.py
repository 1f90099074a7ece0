"""
Samples programs from one or more policies, executes and grades them, and compares the policies, as `trl-mle evaluate`
does.

python recipes/evaluate_mle.py --policies outputs/quickstart/starter outputs/quickstart/policy --names before after \
    --competitions digits --output_dir outputs/quickstart/evaluation
"""

import sys

from trl_mle.cli import main


if __name__ == "__main__":
    sys.argv.insert(1, "evaluate")
    main()
