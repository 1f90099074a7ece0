# Reads or names the data of another competition, which the same warm parent serves.
# ends: ok
places = {"@other@", "@copy@", "/sandbox/input/" + os.path.basename("@copy@")}
for place in sorted(places):
    attempt("folder " + place, lambda: os.listdir(place))
    attempt("file " + place, lambda: open(place + "/train.csv").read())
    attempt("root of pid 1 " + place, lambda: open("/proc/1/root" + place + "/train.csv").read())
    attempt("root of the caller " + place, lambda: open("/proc/@caller@/root" + place + "/train.csv").read())
    os.symlink(place, "link")
    attempt("link " + place, lambda: os.listdir("link"))
    os.remove("link")
    attempt("hard link " + place, lambda: os.link(place + "/train.csv", "hard"))
def names(folder):
    return {os.path.basename(place) for place in places} & set(os.listdir(folder)) - {"public"} or 1 / 0
for folder in ("/sandbox/input", "/sandbox", "input/..", os.path.realpath("input") + "/..", os.path.dirname("@copy@"), os.path.dirname("@other@")):
    attempt("names in " + folder, lambda: names(folder))
attempt("mounts", lambda: [line for line in open("/proc/self/mountinfo") if "@copy@" in line or "@other@" in line] or 1 / 0)
def descriptors():
    found = []
    for number in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        for start in (f"/proc/{number}/cwd", f"/proc/{number}/root", *(f"/proc/{number}/fd/{fd}" for fd in range(10))):
            with suppress(OSError, ZeroDivisionError):
                found += [start] if names(start) else []
    return found or 1 / 0
attempt("open folders", descriptors)
