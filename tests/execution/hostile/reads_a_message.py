# Looks for what `leaves_a_message` left.
# ends: ok
time.sleep(0.5)
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/run/lock", os.path.expanduser("~"), ".", "..", "input"):
    attempt(folder, lambda: open(os.path.join(folder, "trl_mle-message")).read())
