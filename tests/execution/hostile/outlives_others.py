# Lets other processes go first when the machine runs out of memory.
# ends: ok
child = os.fork()
if child == 0:
    threading.Event().wait()
def lower(path, score):
    with open(path, "w") as file:
        file.write(score)
for name in ("self", "thread-self", f"self/task/{os.getpid()}", str(child)):
    for file, score in (("oom_score_adj", "0"), ("oom_score_adj", "999"), ("oom_adj", "0")):
        attempt(f"{name} {file} {score}", lambda: lower(f"/proc/{name}/{file}", score))
if (score := open("/proc/self/oom_score_adj").read().strip()) != "1000":
    print("LOOT", score)
os.kill(child, 9)
