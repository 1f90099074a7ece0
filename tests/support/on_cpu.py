"""What all small trainings of the tests have in common."""

ON_CPU = {
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "disable_tqdm": True,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "logging_steps": 1,
}
