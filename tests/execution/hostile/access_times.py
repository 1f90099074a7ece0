# Leaves a note in the times at which files were read. Under landlock it can (SECURITY.md): nothing mounts them anew there.
# ends: ok
import sklearn
for path in (sklearn.__file__, "input/train.csv", "input/sample_submission.csv", "input"):
    before = os.stat(path).st_atime_ns
    os.listdir(path) if os.path.isdir(path) else open(path, "rb").read()
    if os.stat(path).st_atime_ns != before and os.getcwd().startswith("/sandbox/"):
        print("LOOT", path)
    before = os.stat(path).st_atime_ns  # under landlock, reading may have changed it
    attempt("utime", lambda: os.utime(path) or os.stat(path).st_atime_ns == before and 1 / 0)
