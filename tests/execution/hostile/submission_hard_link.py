# Hands in a hard link.
# ends: ok
# submission: none
os.link("solution.py", "submission.csv")
