"""
Trains a language model to solve Kaggle competitions by writing programs (https://huggingface.co/papers/2509.01684).

    accelerate launch --config_file accelerate_configs/cpu.yaml recipes/train_mle.py --config recipes/quickstart.yaml

The command line overrides the YAML. To resume after a crash, add `--resume_from_checkpoint true`.
"""

from trl_mle.scripts.process_ends import die_with_launcher
from trl_mle.showing import never_fail_to_print


if __name__ == "__main__":
    die_with_launcher()  # before imports that take seconds
    never_fail_to_print()
    from trl_mle.launching import parse

    arguments = parse()
    from trl_mle.scripts.train import main

    main(*arguments)
