"""Replica programs: the programs of replicas that take one step together, one for each kind of replica.

Every replica runs the whole step on its own part of the data (single program, multiple data). Replicas whose parts have equal
shapes share a program; a last batch that does not divide evenly gives two or three kinds. A step that reads its rank
gets a program for each replica. Traces of one step must have the same collectives: the operands of a gather are found by
tracing again with the operands of the other replicas.

Invariant: the programs of one call have the same collectives, in the same order.

Source of the term: Darema et al., A Single-Program-Multiple-Data computational model for EPEX/FORTRAN, 1988.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from weakref import ref

from simdist.caches import BoundedCache
from simdist.errors import DenseReadWarning, InvalidArgumentError
from simdist.program.bound_call import BoundCall
from simdist.program.collective import Collective, GradientOptions
from simdist.program.common_gradients import require_common_gradients
from simdist.program.function import KEPT_SIGNATURES, StepFunction, keep
from simdist.program.global_sizes import joint_sizes
from simdist.program.operations import Program, TracedCollective
from simdist.program.taken_batches import fits, fits_at_once
from simdist.program.values import Aval

__all__ = ["ReplicaPrograms", "warn_of_different_lookups"]

KnownOperands = list[list[tuple[Aval, ...]]]
"""What each replica gives to each collective: avals by collective and rank."""


class ReplicaPrograms:
    """The programs of one step function under one strategy.

    Args:
        fn: the step.
        num_replicas: how many take the step together, over all tasks.
        first_rank: of the replicas that are traced here; the others are traced by the tasks that drive them.
        options: what the strategy wants of the collective of gradients.
    """

    def __init__(self, fn: StepFunction, num_replicas: int, first_rank: int = 0, options: GradientOptions | None = None) -> None:
        self._fn = ref(fn)  # who keeps these programs for a step shall not keep the step, with the model and the variables that it knows
        self.num_replicas = num_replicas
        self.first_rank = first_rank
        self.options = options
        self._known: BoundedCache[tuple[Hashable, ...], list[list[Program]]] = BoundedCache(KEPT_SIGNATURES)

    @property
    def fn(self) -> StepFunction:
        """The step, which is there as long as a caller has it."""
        fn = self._fn()
        assert fn is not None
        return fn

    def programs(self, calls: Sequence[BoundCall]) -> list[Program]:
        """The program of each replica, for what its iterators give next.

        Args:
            calls: of the replicas that are driven here, in the order of their ranks.

        Raises:
            InvalidArgumentError: the replicas have different collectives.
            StopIteration: an iterator has not enough elements left.
        """
        known = self._known.get(_key_of_all(calls), list)
        for programs in known:
            if _all_fit(fits_at_once, programs, calls):
                return programs
        for programs in known:
            if _all_fit(fits, programs, calls):
                return programs
        programs = self._with_known_operands(calls, self.options)
        keep(known, programs)
        return programs

    def programs_of_tables(self, calls: Sequence[BoundCall]) -> list[Program]:
        """As `programs`, which gives these for such calls from now on: the gradients of tables are tables."""
        known = self._known.get(_key_of_all(calls), list)
        known[:] = [programs for programs in known if not _all_fit(fits, programs, calls)]
        programs = self._with_known_operands(calls, None if self.options is None else self.options.of_tables())
        keep(known, programs)
        return programs

    def _with_known_operands(self, calls: Sequence[BoundCall], options: GradientOptions | None) -> list[Program]:
        """Trace until the operands of all replicas are known in all collectives."""
        known_operands: KnownOperands = []
        shared: list[bool] = []
        joint: list[int | None] = []
        for _ in range(MOST_ROUNDS):
            try:
                programs = self._trace(calls, known_operands, shared, options, joint)
            except Exception:
                # Perhaps the step took for a value of each replica what is the same for all, but only all of them can tell; or it needs the
                # true shape of what is gathered, and the operands of the others were taken to be as long as its own.
                known, operands = self._reported(calls, known_operands, shared, options)
                is_uneven = any(len(set(given)) > 1 for given in operands)
                if known == shared and not (is_uneven and operands != known_operands):
                    raise
                shared, known_operands = known, operands if is_uneven else known_operands
                continue
            if any(program.reads_differing_copies for program in programs):
                continue  # a replica has assigned a value of its own to what others had read as one for all
            fallback = options.fallback() if options is not None and _differ_in_tables(programs) else None
            if fallback is not None:
                # One replica looks up so many rows that it would send the table, another so few, or none, that it would send rows.
                if fallback.reads_rows and not fallback.gathers_rows:
                    warn_of_different_lookups(self.fn.name)
                options = fallback
                continue
            sizes = joint_sizes(self.fn.name, [program.global_sizes for program in programs], self.num_replicas)
            if any(size is not None for size in sizes) and sizes != joint:
                joint = sizes
                continue
            found = self._found(programs)
            self._require_common_collectives(programs)
            if all(
                len(set(given)) == 1 or (number < len(known_operands) and known_operands[number] == given)
                for number, given in enumerate(found)
            ):
                require_common_gradients(self.fn.name, programs, calls)
                return programs
            known_operands = found
        raise InvalidArgumentError(
            f"The shapes of what the replicas of {self.fn.name} gather do not settle. Gather values whose shapes are fixed."
        )

    def _reported(
        self, calls: Sequence[BoundCall], known_operands: KnownOperands, shared: list[bool], options: GradientOptions | None
    ) -> tuple[list[bool], KnownOperands]:
        """What replicas report though their step fails.

        Returns:
            Which of the constants that they hand to code across them are equal at all replicas, in their order; and what they give to the
            collectives that all of them come to.
        """
        if self.num_replicas == 1 or len(calls) < self.num_replicas:
            return shared, known_operands
        reported_constants: list[list[object]] = []
        collectives: list[list[Collective]] = []
        for position, call in enumerate(calls):
            reported_constants.append([])
            collectives.append([])
            rank, reported = self.first_rank + position, (reported_constants[-1], (), collectives[-1])
            with suppress(Exception):
                self.fn.trace(call, rank, self.num_replicas, known_operands, options, shared, *reported)
        equal = [all(_equal(constant, given[0]) for constant in given) for given in zip(*reported_constants, strict=False)]
        return equal, [[one.operands for one in given] for given in zip(*collectives, strict=False)]

    def _trace(
        self,
        calls: Sequence[BoundCall],
        known_operands: KnownOperands,
        shared: list[bool],
        options: GradientOptions | None,
        joint: list[int | None],
    ) -> list[Program]:
        programs: list[Program] = []
        for position, call in enumerate(calls):
            same = [
                program
                for program in programs
                if program.rank is None and fits(program, call) and calls[programs.index(program)].key == call.key
            ]
            rank = self.first_rank + position
            if not same:
                same = [self.fn.trace(call, rank, self.num_replicas, known_operands, options, shared, joint=joint)]
            programs.append(same[0])
        return programs

    def _found(self, programs: list[Program]) -> KnownOperands:
        """The operands of each replica in each collective; other mains are taken to have replicas with the same ones, in the same order."""
        common = min(len(program.collectives) for program in programs)
        found: KnownOperands = []
        for number in range(common):
            given = [program.collectives[number].operands for program in programs]
            found.append([given[(rank - self.first_rank) % len(given)] for rank in range(self.num_replicas)])
        return found

    def _require_common_collectives(self, programs: list[Program]) -> None:
        first = programs[0]
        for rank, program in enumerate(programs[1:], self.first_rank + 1):
            if program is first:
                continue
            if len(program.collectives) != len(first.collectives):
                raise InvalidArgumentError(
                    f"In {self.fn.name}, replica {self.first_rank} meets the others {len(first.collectives)} times and replica {rank} "
                    f"{len(program.collectives)} times. Every replica must make the same all-reduces, gathers and aggregated assignments."
                )
            for mine, theirs in zip(first.collectives, program.collectives, strict=True):
                alike = mine.kind == theirs.kind and len(mine.operands) == len(theirs.operands)
                if not alike or (mine.kind != "all_gather" and mine.operands != theirs.operands):
                    raise InvalidArgumentError(
                        f"In {self.fn.name}, replica {self.first_rank} comes to {mine} and replica {rank} to {theirs}. What is combined "
                        "must have the same shapes and dtypes on every replica; strategy.gather joins parts of different lengths."
                    )
            self._require_common_derivatives(rank, program, first)

    def _require_common_derivatives(self, rank: int, program: Program, first: Program) -> None:
        """Refuse that something flows back through a collective at one replica and not at another: others would take its place.

        Raises:
            InvalidArgumentError: the loss of one of them does not depend on it.
        """
        theirs, mine = (
            Counter([op.collective.number for op in of.operations if isinstance(op, TracedCollective)]) for of in (first, program)
        )
        differing = [number for number in theirs | mine if number is not None and theirs[number] != mine[number]]
        if differing:
            number = min(differing)
            user, other = (self.first_rank, rank) if theirs[number] > mine[number] else (rank, self.first_rank)
            raise InvalidArgumentError(
                f"In {self.fn.name}, the loss of replica {user} depends on {first.collectives[number]} (number {number} of the step), and "
                f"that of replica {other} does not. What flows back through it comes from the losses of all replicas: let each depend on "
                "it, if only by adding 0.0 times what it gives."
            )


def warn_of_different_lookups(name: str) -> None:
    """Say that the replicas of a step move whole tables, because they do not look up rows of the same ones."""
    warnings.warn(
        f"In {name}, replicas look up rows of different tables, in another order, or so many more than others that they take the whole "
        "table. Whole tables and gradients of them travel in its steps, and lazy_rows=True has no effect. Let each replica make the same "
        "lookups.",
        DenseReadWarning,
        stacklevel=2,
    )


def _differ_in_tables(programs: Sequence[Program]) -> bool:
    """Whether the replicas have different collectives, and some of them are of tables alone."""
    kinds = {tuple([(collective.kind, collective.table) for collective in program.collectives]) for program in programs}
    return len(kinds) > 1 and any(table is not None for of_one in kinds for _, table in of_one)


def _equal(one: object, other: object) -> bool:
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:
        return False


def _key_of_all(calls: Sequence[BoundCall]) -> tuple[Hashable, ...]:
    """The keys of all calls; where they have one key, that and their number: to hash it for each takes longer."""
    first = calls[0].key
    return (len(calls), first) if all(call.key is first for call in calls) else tuple([call.key for call in calls])


# A gather whose shapes depend on an earlier gather needs one round more.
MOST_ROUNDS = 8


def _all_fit(fit: Callable[[Program, BoundCall], bool], programs: Sequence[Program], calls: Sequence[BoundCall]) -> bool:
    """Whether every program fits its call. A loop, because a generator would swallow the end of an iterator."""
    for program, call in zip(programs, calls, strict=True):  # noqa: SIM110
        if not fit(program, call):
            return False
    return True
