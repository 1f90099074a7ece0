# Leaves files for the next program wherever it can. `reads_a_message` comes after it.
# ends: ok
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/run/lock", os.path.expanduser("~"), ".", "..", "input"):
    with suppress(OSError):
        with open(os.path.join(folder, "trl_mle-message"), "w") as file:
            file.write("the answer is 42")
