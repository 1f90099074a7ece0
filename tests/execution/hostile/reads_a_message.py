# Looks for what `leaves_a_message` left.
# ends: ok
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/run/lock", os.path.expanduser("~"), ".", "..", "input"):
    attempt(folder, lambda: open(os.path.join(folder, "trl_mle-message")).read())
