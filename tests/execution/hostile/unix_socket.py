# Connects to a unix socket in the file system that everybody may write to, as that of a container engine may be.
# ends: ok
attempt("path", lambda: socket.socket(socket.AF_UNIX).connect("@unix@"))
for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket"):
    attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
