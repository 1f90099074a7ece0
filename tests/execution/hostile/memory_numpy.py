# Allocates 16 GiB in one array.
# ends: out_of_memory
import numpy
numpy.ones(2 << 30)
