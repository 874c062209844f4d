"""Whether replicas change a variable that they share by gradients that differ: those of one replica alone would count.

An optimizer adds up the gradients of the replicas first, by a collective, unless the step says that they are those of all already. What
comes out of a collective is the same everywhere; so is what is computed of that, and of common arguments. Copies of a variable that
replicas have assigned apart are taken for equal, as those of sums that are kept for a later step. (Numbers that a replica writes into its
trace, such as its rank, are not seen.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.program.bound_call import BoundCall
from simdist.program.dependencies import labels_of_results
from simdist.program.operations import Argument, Compute, Next, Program, RandomKey, ReadRows, Register, RuleHandle, Update

__all__ = ["require_common_gradients"]


def require_common_gradients(name: str, programs: Sequence[Program], calls: Sequence[BoundCall]) -> None:
    """Refuse a step whose optimizer changes a common variable by what each replica has for itself.

    Args:
        name: of the step.
        programs: of the replicas that are driven here, in the order of their ranks.
        calls: theirs.

    Raises:
        InvalidArgumentError: it does.
    """
    if len(programs) < 2:
        return
    local = [k for k, array in enumerate(calls[0].arrays) if any(call.arrays[k] is not array for call in calls)]
    different = list(dict.fromkeys(programs))
    for program in different:
        if not _changed_apart(program, local, () if len(different) == 1 else program.constants, _of_any_input):
            continue  # as nearly always: to look into the kernels takes longer
        names = _changed_apart(program, local, _constants_of_its_own(program, different), _of_its_inputs)
        if names:
            raise InvalidArgumentError(
                f"In {name}, the replicas gave different gradients of {', '.join(dict.fromkeys(names))} to apply_gradients(..., "
                "skip_gradients_aggregation=True), and those of the first alone would count. Leave skip_gradients_aggregation out, or add "
                "them up before: get_replica_context().all_reduce('sum', gradients). For steps of each replica by itself there is "
                "MultiWorkerMirroredStrategy(..., sync_every=)."
            )


def _changed_apart(
    program: Program, local: Collection[int], constants: Collection[Register], through: Callable[[Compute, set[Register]], list[bool]]
) -> list[str]:
    """The variables, one for all replicas, that an optimizer changes by what a replica has for itself.

    Args:
        local: the numbers of the arrays that are arguments of one replica alone.
        constants: those that differ between replicas.
        through: which results of a computation are a replica's own, where some registers are.
    """
    found, names = set(constants), list[str]()
    for op in program.operations:
        match op:
            case Next() | ReadRows():
                found.update(op.outputs)
            case Argument():
                found.update(op.outputs[k] for k in local)
            case RandomKey():
                found.add(op.output)
            case Compute():
                found.update(number for number, is_local in zip(op.outputs, through(op, found), strict=True) if is_local)
            case Update() if isinstance(op.rule, RuleHandle):
                given = zip(op.variables, op.operands, strict=True)
                names += [variable.name for variable, number in given if number in found and not variable.has_differing_copies]
            case _:
                pass
    return names


def _of_any_input(op: Compute, found: set[Register]) -> list[bool]:
    return [not found.isdisjoint(op.inputs)] * len(op.outputs)


def _of_its_inputs(op: Compute, found: set[Register]) -> list[bool]:
    return [bool(label) for label in labels_of_results(op.kernel.closed.jaxpr, [number in found for number in op.inputs])]


def _constants_of_its_own(program: Program, programs: Sequence[Program]) -> list[Register]:
    """The registers of a program with constants that not all others have."""
    return [
        number
        for number, constant in program.constants.items()
        if not all(_has_constant(other, number, _bytes(constant)) for other in programs if other is not program)
    ]


def _has_constant(program: Program, number: Register, wanted: bytes) -> bool:
    """Whether a program has a constant: in the register of this number, or in any where that is none of its constants.

    A replica without rows has other operations, and so other registers.
    """
    known = program.constants
    return wanted == _bytes(known[number]) if number in known else any(wanted == _bytes(constant) for constant in known.values())


def _bytes(constant: ArrayLike) -> bytes:
    return np.asarray(jnp.asarray(constant)).tobytes()
