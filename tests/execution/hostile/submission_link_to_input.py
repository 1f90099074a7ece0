# Hands in a symbolic link to the data.
# ends: ok
# submission: none
os.symlink("input/sample_submission.csv", "submission.csv")
