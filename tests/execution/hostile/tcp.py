# Connects to the internet, to a server on this machine, and listens itself.
# ends: ok
import urllib.request
attempt("internet", lambda: socket.create_connection(("1.1.1.1", 53), timeout=1))
attempt("this machine", lambda: socket.create_connection(("127.0.0.1", @port@), timeout=1))
attempt("IPv6", lambda: socket.create_connection(("::1", @port@), timeout=1))
attempt("http", lambda: urllib.request.urlopen("http://127.0.0.1:@port@", timeout=1))
attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 1)))
