"""Operations that are counted by hand, because XLA's own analysis of the program for CPUs does not know what they cost.

- Cumulative sums, products, maxima and minima of n numbers: n operations, as in a loop over them. XLA lowers them to a window that
  has n operations for each number.
- Factorizations, which XLA calls as a library: the leading terms of Golub and Van Loan, Matrix Computations, 2013: Cholesky
  (4.2), LU (3.2), Householder QR and its product (5.1, 5.2), triangular systems (3.1), symmetric (8.3) and other eigenvalues (7.5),
  Hessenberg and tridiagonal forms (7.4, 8.3), singular values (8.6).
- The k largest of n numbers: n comparisons for each bit of k, as with a heap of k (Knuth, The Art of Computer Programming 3, 5.2.3).
- Complex numbers in these, in products of matrices and in convolutions: four times as many as for real ones.

Not modelled: how often an iterative method really turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, JaxprEqn

from simdist.program.dot_algorithms import product_for_cpus
from simdist.program.jaxprs import Atom, aval_in, num_elements
from simdist.program.traces import jaxpr_of

__all__ = ["flops_by_hand", "stand_in"]

JOINS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "cumsum": jax.lax.add,
    "cumprod": jax.lax.mul,
    "cummax": jax.lax.max,
    "cummin": jax.lax.min,
    "cumlogsumexp": jnp.logaddexp,
}
COMPLEX = 4


def stand_in(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """What XLA counts in the place of an equation; None for most, which stay.

    - A cumulative operation: one that joins each number with itself, and so has as many operations.
    - A call back into Python: zeros, as it costs nothing here. On a GPU, JAX refuses to lower it for the CPU.
    - A product by an algorithm that CPUs lack: the product of the same matrices.
    """
    kind = eqn.primitive.name
    if "callback" in kind or kind == "debug_print":
        made, given = list(map(_spec, eqn.outvars)), list(map(_spec, eqn.invars))
        return jaxpr_of(lambda *_: [jax.lax.empty(one.shape, one.dtype) for one in made], *given)
    join = JOINS.get(kind)
    return product_for_cpus(eqn) if join is None else jaxpr_of(lambda x: join(x, x), _spec(eqn.invars[0]))


def _spec(atom: Atom) -> jax.ShapeDtypeStruct:
    assert isinstance(atom.aval, ShapedArray)
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)  # also that of a key, which is no type of numbers


def _is_complex_product(eqn: JaxprEqn) -> bool:
    """Whether it multiplies complex matrices, or convolves with them: XLA counts them as if they were real."""
    return eqn.primitive.name in ("dot_general", "conv_general_dilated") and _is_complex(eqn.outvars[0])


def flops_by_hand(eqn: JaxprEqn) -> float:
    """What an equation costs beside what XLA counts; 0 for most.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> eqn = jax.make_jaxpr(lambda x: jax.lax.top_k(x, 3))(jnp.ones(50)).jaxpr.eqns[0]
        >>> flops_by_hand(eqn)
        100.0
    """
    kind = eqn.primitive.name
    if _is_complex_product(eqn):
        return (COMPLEX - 1) * _product(eqn)
    count = COUNTS.get(kind)
    if count is None:
        return 0.0
    shape = aval_in(eqn.invars[0]).shape
    batch = math.prod(shape[: -1 if kind == "top_k" else -2])
    return float(batch) * count(eqn) * (COMPLEX if _is_complex(eqn.invars[0]) else 1)


def _is_complex(atom: Atom) -> bool:
    return aval_in(atom).dtype.startswith("complex")


def _product(eqn: JaxprEqn) -> float:
    """Multiplications and additions of a product of real matrices, or of a convolution."""
    made = num_elements(eqn.outvars[0])
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return 2.0 * made * math.prod(aval_in(eqn.invars[0]).shape[axis] for axis in contracted)
    shape, spec = aval_in(eqn.invars[1]).shape, eqn.params["dimension_numbers"].rhs_spec
    return 2.0 * made * math.prod(shape) / shape[spec[0]]


def _sizes(eqn: JaxprEqn) -> tuple[int, int]:
    """The longer and the shorter side of the matrix."""
    rows, columns = aval_in(eqn.invars[0]).shape[-2:]
    return max(rows, columns), min(rows, columns)


def _lu(eqn: JaxprEqn) -> float:
    m, n = _sizes(eqn)
    return m * n**2 - n**3 / 3


def _triangle_and_reflectors(eqn: JaxprEqn) -> float:
    m, n = _sizes(eqn)
    return 2 * m * n**2 - 2 * n**3 / 3


def _householder_product(eqn: JaxprEqn) -> float:
    m, n = aval_in(eqn.invars[0]).shape[-2:]
    return _product_of_reflectors(m, n, aval_in(eqn.invars[1]).shape[-1])


def _product_of_reflectors(rows: int, columns: int, count: int) -> float:
    return 4 * rows * columns * count - 2 * (rows + columns) * count**2 + 4 * count**3 / 3


def _qr(eqn: JaxprEqn) -> float:
    m, n = aval_in(eqn.outvars[0]).shape[-2:]
    return _triangle_and_reflectors(eqn) + _product_of_reflectors(m, n, _sizes(eqn)[1])


def _triangular_solve(eqn: JaxprEqn) -> float:
    """n operations for each number of the right sides, where n is the size of the triangle."""
    n = aval_in(eqn.invars[0]).shape[-1]
    return n * math.prod(aval_in(eqn.invars[1]).shape[-2:])


def _svd(eqn: JaxprEqn) -> float:
    """Golub and Reinsch's method: values alone, with the thin factors, or with the whole ones."""
    m, n = _sizes(eqn)
    if not eqn.params["compute_uv"]:
        return 4 * m * n**2 - 4 * n**3 / 3
    if eqn.params["full_matrices"]:
        return 4 * m**2 * n + 8 * m * n**2 + 9 * n**3
    return 14 * m * n**2 + 8 * n**3


def _eig(eqn: JaxprEqn) -> float:
    n = _sizes(eqn)[1]
    with_vectors = eqn.params["compute_left_eigenvectors"] or eqn.params["compute_right_eigenvectors"]
    return (25 if with_vectors else 10) * n**3


def _top_k(eqn: JaxprEqn) -> float:
    return aval_in(eqn.invars[0]).shape[-1] * max(1, math.ceil(math.log2(eqn.params["k"] + 1)))


def _cubes(factor: float) -> Callable[[JaxprEqn], float]:
    return lambda eqn: factor * _sizes(eqn)[1] ** 3


COUNTS: dict[str, Callable[[JaxprEqn], float]] = {
    "cholesky": _cubes(1 / 3),
    "lu": _lu,
    "qr": _qr,
    "geqrf": _triangle_and_reflectors,
    "geqp3": _triangle_and_reflectors,
    "householder_product": _householder_product,
    "triangular_solve": _triangular_solve,
    "eigh": _cubes(9),
    "eig": _eig,
    "schur": _cubes(25),
    "hessenberg": _cubes(10 / 3),
    "tridiagonal": _cubes(4 / 3),
    "svd": _svd,
    "top_k": _top_k,
}
