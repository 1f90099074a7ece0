# Reads what belongs to the system and to other users.
# ends: ok
for path in ("/etc/shadow", "/etc/passwd", "/etc/hostname", "/root/.bashrc", "/root/.ssh/id_rsa", "/var/log/dpkg.log"):
    attempt(path, lambda: open(path).read())
for path in ("/home", "/var/log", "/mnt"):
    attempt(path, lambda: os.listdir(path))
