# Looks for secrets in its own environment and in that of every process it can name.
# ends: ok
secret = "hf_" + "secret"
attempt("own", lambda: [1 / 0 for value in os.environ.values() if secret in value] or 1 / 0)
try:
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()}
except OSError:
    others = set()
for pid in {1, os.getppid(), @caller@} | others - {os.getpid()}:
    attempt(f"environ {pid}", lambda: open(f"/proc/{pid}/environ").read() or 1 / 0)
