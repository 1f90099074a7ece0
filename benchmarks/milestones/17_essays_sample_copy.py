"""Baseline for the essay competition: everybody gets the grade of the sample submission."""
import os
import shutil

SOURCE = os.path.join("input", "sample_submission.csv")
TARGET = "submission.csv"

if not os.path.exists(SOURCE):
    raise FileNotFoundError(SOURCE)

shutil.copy(SOURCE, TARGET)
print(f"copied {os.path.getsize(TARGET)} bytes")
