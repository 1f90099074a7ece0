# Locks on parts of a file are charged to nobody.
# ends: killed
files = []
while True:
    files.append(open(f"locks-{len(files)}", "w"))
    for i in range(2000):
        fcntl.lockf(files[-1], fcntl.LOCK_EX, 1, 2 * (2000 - i))
    if len(files) > 500:
        time.sleep(60)
