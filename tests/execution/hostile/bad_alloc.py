# C++ code that is refused memory ends by a signal, not by an exception.
# ends: out_of_memory
new = ctypes.CDLL("libstdc++.so.6")._Znwm
new.argtypes = [ctypes.c_size_t]
new(1 << 45)
