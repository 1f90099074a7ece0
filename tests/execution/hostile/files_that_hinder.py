# Names and folders at which whoever cleans up may stumble, in the place of what is opened after the end.
# ends: ok; landlock: ok, output_limit
# submission: none
for folder in (b".", os.environb.get(b"TMPDIR", b"/tmp")):
    for name in (b"new\nline", b"\xff\xfe", b"-rf", b"--", b"*", b"x" * 255, b"\x1b[2J", b" (deleted)", b"submission.csv\n"):
        with open(os.path.join(folder, name), "w"):
            pass
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(40):  # longer than a path may be
        os.mkdir("y" * 250, 0o700, dir_fd=deep)
        deep = os.open("y" * 250, os.O_RDONLY, dir_fd=deep)
    os.mkfifo("pipe", dir_fd=deep)
    os.symlink("/etc/passwd", "link", dir_fd=deep)
    os.symlink("loop", os.path.join(folder, b"loop"))
os.mkfifo("solution.pipe")
os.remove("solution.py")
os.mkfifo("solution.py")
os.mkdir("submission.csv", 0)
with suppress(OSError):
    os.unlink("input")  # where it is a link
    os.mkfifo("input", 0)
os.mkdir("locked")
open("locked/file", "w").close()
os.chmod("locked", 0)
os.chmod(".", 0)
