"""A program's output, of which the first and the last part are kept."""

LINE_BYTES = 4096  # kept of an unfinished line, which may contain an incomplete milestone print


class Output:
    """An output stream of which `limit` bytes are kept, half of them from the beginning and half from the end, and the
    milestone prints between them, which begin with the nonce, each once. The work per byte is bounded."""

    def __init__(self, limit: int, nonce: str):
        self._half = limit // 2
        self._nonce = nonce.encode()
        self._first, self._last = bytearray(), bytearray()
        self._left_out = 0  # bytes between them
        self._line = b""  # the last line, which is incomplete
        self._prints: dict[bytes, int] = {}  # milestone prints, and where they end
        self._prints_bytes = 0

    def feed(self, chunk: bytes) -> None:
        if not self._nonce:
            self._keep(chunk)
            return
        data, begin = self._line + chunk, 0
        while (found := data.find(self._nonce, begin)) >= 0 and (end := data.find(b"\n", found) + 1):
            before, marker = data[begin:found], data[found:end]
            if marker in self._prints:
                self._keep(before + b"\n" if before and not before.endswith(b"\n") else before)
            else:
                self._keep(before + marker)
                if self._prints_bytes + len(marker) <= self._half:  # only a program that found the nonce prints more
                    self._prints[marker] = len(self._first) + self._left_out + len(self._last) - 1
                    self._prints_bytes += len(marker)
            begin = end
        end = max(begin, data.rfind(b"\n", begin) + 1, len(data) - LINE_BYTES)
        self._keep(data[begin:end])
        self._line = data[end:]

    def _keep(self, text: bytes) -> None:
        if not self._last:
            room = self._half - len(self._first)
            self._first += text[:room]
            text = text[room:]
        self._last += text
        excess = max(0, len(self._last) - self._half)
        del self._last[:excess]
        self._left_out += excess

    def text(self) -> str:
        """The kept parts, with a line that says how much was left out, and the milestone prints in it."""
        last = self._last + self._line
        if self._left_out:
            begun = last.find(b"\n", 0, LINE_BYTES) + 1  # drops a line without its beginning
            left_out = range(len(self._first), len(self._first) + self._left_out + begun)
            note = f"\n… {len(left_out)} bytes left out …\n".encode()
            markers = [marker for marker, end in self._prints.items() if end in left_out]
            last = bytearray(b"").join([note, *markers, last[begun:]])
        return (self._first + last).decode("utf-8", errors="replace")
