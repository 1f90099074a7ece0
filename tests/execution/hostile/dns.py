# Resolves names, which carry data out where only name servers can be reached.
# ends: ok
for name in ("example.com", "secret.example.com"):
    attempt(name, lambda: socket.getaddrinfo(name, 80))
attempt("gethostbyname", lambda: socket.gethostbyname("example.com"))
