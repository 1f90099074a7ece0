# Reads the labels by their path, through "..", through links, and through the roots of other processes.
# ends: ok
attempt("absolute path", lambda: open("@private@/test.csv").read())
attempt("parent of input", lambda: open("input/../private/test.csv").read())
attempt("parent of the real input", lambda: open(os.path.realpath("input") + "/../private/test.csv").read())
attempt("folder", lambda: os.listdir("@private@"))
attempt("root of pid 1", lambda: open("/proc/1/root/@private@/test.csv").read())
attempt("cwd of pid 1", lambda: os.listdir("/proc/1/cwd"))
attempt("root of the caller", lambda: open("/proc/@caller@/root/@private@/test.csv").read())
os.symlink("@private@/test.csv", "link")
attempt("link", lambda: open("link").read())
attempt("hard link", lambda: os.link("@private@/test.csv", "hard"))
