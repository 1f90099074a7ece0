# Hands in a symbolic link to a file that only others may read.
# ends: ok
# submission: none
os.symlink("/etc/shadow", "submission.csv")
