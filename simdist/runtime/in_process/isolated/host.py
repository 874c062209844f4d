"""The far side: a task with a memory of its own, which knows only what messages have brought."""

from __future__ import annotations

import dataclasses

import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.in_process.computing import arrays_of
from simdist.runtime.in_process.isolated.arrays import bundle_of, jax_arrays
from simdist.runtime.in_process.isolated.held_groups import HeldGroups
from simdist.runtime.in_process.isolated.host_replicas import JointStep, WorkerReplicaStep
from simdist.runtime.in_process.isolated.host_step import HostStep, ReplicaStep, WorkerStep
from simdist.runtime.in_process.isolated.switchboard import Deliver
from simdist.runtime.in_process.replica_view import ReplicaView
from simdist.runtime.step_versions import StepVersions
from simdist.runtime.wire import RemoteProgram, decode_kernel, decode_program
from simdist.runtime.wire.failures import error_of, plain_error
from simdist.runtime.wire.kernels import digest_of
from simdist.runtime.wire.messages import (
    BeginStep,
    ChangeGroup,
    Confirmed,
    EndStep,
    Failed,
    FetchedGroups,
    FetchGroups,
    FetchRows,
    ForgetGroup,
    JoinGroups,
    JoinReplicas,
    Message,
    PutGroup,
    ResumeStep,
    TakeKernel,
    TakeProgram,
    read_message,
)

__all__ = ["Host"]


class Host:
    """A task.

    Args:
        name: of the task.
        seed: of all random streams.
        chief: the task whose variables change when a reply is accepted.
        deliver: brings requests to other tasks.

    Attributes:
        groups: that it holds.
    """

    def __init__(self, name: str, seed: int, chief: str, deliver: Deliver) -> None:
        self.name = name
        self.seed = seed
        self.chief = chief
        self.groups = HeldGroups()
        self._deliver = deliver
        self._kernels: dict[str, Kernel] = {}
        self._digests: dict[Kernel, str] = {}
        self._programs: dict[str, RemoteProgram] = {}
        self._steps: dict[int, StepVersions] = {}
        self._replicas: dict[tuple[int, int], ReplicaStep | WorkerReplicaStep] = {}
        self._joint: dict[int, JointStep] = {}
        self._observed: list[str] = []

    def handle(self, request: bytes) -> bytes:
        """Do what a message asks for; the reply."""
        self._observed = []
        try:
            return self._answer(read_message(request)).to_bytes()
        except Exception as error:
            return Failed(plain_error(error), tuple(self._observed)).to_bytes()

    def ask(self, task: str, request: Message) -> Message:
        """Ask another task; its reply. An error there is one here."""
        reply = read_message(self._deliver(task, request.to_bytes()))
        if isinstance(reply, Failed):
            raise error_of(reply.error)
        return reply

    def digest_of(self, kernel: Kernel) -> str:
        """By which other tasks know a kernel that came in a message."""
        return self._digests[kernel]

    def _answer(self, request: Message) -> Message:
        match request:
            case BeginStep():
                return self._begun(request)
            case ResumeStep():
                return self._go_on(self._replicas[request.step, request.rank], bundle_of(request.arrays))
            case FetchGroups():
                return FetchedGroups(tuple([arrays_of(self.groups.present(group)) for group in request.groups]))
            case FetchRows():
                (rows,), array = request.rows, arrays_of(self.groups.present(request.group))[request.position]
                return FetchedGroups(((np.asarray(array)[rows],),))
            case EndStep():
                return self._end(request)
            case _:
                self._keep(request)
                return Confirmed()

    def _keep(self, request: Message) -> None:
        """What a task keeps, and what it lets go."""
        match request:
            case ChangeGroup():
                self.groups.change(request.group, self._kernels[request.kernel], bundle_of(request.operands), request.where)
            case JoinReplicas():
                self._joint[request.step].join()
            case PutGroup():
                self.groups.put(request.group, bundle_of(request.arrays))
            case JoinGroups():
                self.groups.join(request.group, bundle_of(request.arrays), request.joined)
            case ForgetGroup():
                self.groups.forget(request.group)
            case TakeKernel():
                digest, kernel = digest_of(request.kernel), decode_kernel(request.kernel)
                self._kernels[digest], self._digests[kernel] = kernel, digest
            case TakeProgram():
                program = decode_program(request.program, self._kernels)
                constants = tuple([(slot, Bundle(bundle.avals, jax_arrays(arrays_of(bundle)))) for slot, bundle in program.constants])
                self._programs[digest_of(request.program)] = dataclasses.replace(program, constants=constants)
            case _:
                raise InvalidArgumentError(f"A {type(request).__name__} is a reply, and {self.name} was to do something. Send a request.")

    # -- steps

    def _begun(self, begin: BeginStep) -> Message:
        program = self._programs.get(begin.program)
        if program is None:
            raise FailedPreconditionError(f"{self.name} was to run a program that was never sent to it. Send it with TakeProgram first.")
        if begin.rank is None:
            return self._go_on(WorkerStep(self, program, begin), None)
        if begin.counted is not None:
            joint = self._joint.setdefault(begin.step, JointStep(begin))
            of_worker = self._replicas[begin.step, begin.rank] = WorkerReplicaStep(self, program, begin, joint)
            joint.replicas.append(of_worker)
            return self._go_on(of_worker, None)
        versions = self._steps.setdefault(begin.step, StepVersions(self.groups))
        replica = self._replicas[begin.step, begin.rank] = ReplicaStep(self, program, begin, ReplicaView(versions))
        return self._go_on(replica, None)

    def _go_on(self, step: HostStep, result: Bundle | None) -> Message:
        self._observed = step.observed
        step.observed.clear()
        return step.go(result)

    def _end(self, end: EndStep) -> Message:
        """Drop a step of replicas; before that, what it has changed may be made to count."""
        versions = self._steps.pop(end.step, None)
        self._replicas = {key: replica for key, replica in self._replicas.items() if key[0] != end.step}
        if versions is not None and end.counts:
            versions.commit()
        joint = self._joint.pop(end.step, None)
        return Confirmed() if joint is None or not end.counts else joint.end()
