from streamcal.kernels.tree.hull_nodes cimport Inner
from streamcal.kernels.tree.hull_search cimport Search

cdef void settle(Search search, Inner inner, int side) noexcept
cdef void find_pool(Search search, Inner inner) noexcept
