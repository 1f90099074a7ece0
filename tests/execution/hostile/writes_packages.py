# Changes the packages that later programs import.
# ends: ok
import sklearn
for path in (sklearn.__file__, os.__file__, sys.prefix + "/lib/python3/site-packages/evil.pth", sys.executable):
    attempt(path, lambda: open(path, "ab"))
attempt("new file", lambda: open(os.path.dirname(sklearn.__file__) + "/evil.py", "w"))
attempt("rename", lambda: os.rename(sklearn.__file__, sklearn.__file__ + "x"))
attempt("/usr", lambda: open("/usr/lib/evil.py", "w"))
attempt("/usr/local", lambda: open("/usr/local/bin/python", "w"))
