# Changes the data that later programs read.
# ends: ok
for path in ("input/train.csv", os.path.realpath("input/train.csv")):
    attempt("write", lambda: open(path, "w"))
    attempt("append", lambda: open(path, "ab"))
    attempt("truncate", lambda: os.truncate(path, 0))
    attempt("remove", lambda: os.remove(path))
    attempt("rename", lambda: os.rename(path, path + "x"))
    attempt("link", lambda: os.link(path, "mine"))
attempt("new", lambda: open("input/new.csv", "w"))
attempt("folder", lambda: os.mkdir("input/new"))
attempt("owner", lambda: os.chown("input/train.csv", os.getuid(), os.getgid()))
attempt("attribute", lambda: os.setxattr("input/train.csv", "user.x", b"1"))
for change in (lambda: os.chmod("input/train.csv", 0), lambda: os.utime("input/train.csv", (0, 0))):
    with suppress(OSError):
        change()  # is refused, or has no effect, which is seen afterwards
attempt("mode", lambda: open("input/train.csv").read() and 1 / 0)
