"""The exercises of lesson 00, a cluster in one cell."""

from __future__ import annotations

from classroom.answers import a_whole_number
from classroom.exercise import Exercise

__all__ = ["first_exercise", "second_exercise"]

PARAMETERS = 64 * 64 + 64 + 64 * 10 + 10  # of the model: two kernels and two biases
STEPS_PER_EPOCH = 60
MOST_CLOSURES = 4
REMARKS = {
    PARAMETERS: "that is how many numbers there are; each of them takes four bytes.",
    4 * (64 * 64 + 64 * 10): "these are the kernels alone; the biases have gradients, too.",
    8 * PARAMETERS: "that counts eight bytes a number (or both directions); a float32 takes four, and the gradients go one way.",
    32 * PARAMETERS: "these are bits; a byte has eight.",
    16 * PARAMETERS: "these are eight-byte numbers in both directions; a float32 takes four, and the gradients go one way.",
    3 * 4 * PARAMETERS: "these are the gradients of all three workers; give those of one.",
}


def bytes_of_gradients(answer: int) -> str | None:
    """A worker sends one float32 for each parameter."""
    if answer == 4 * PARAMETERS:
        return None
    return f"{answer:,} bytes: " + REMARKS.get(answer, f"that is too {'many' if answer > 4 * PARAMETERS else 'few'}.")


def smallest_with_few_closures(steps: int) -> str | None:
    """The smallest number of steps with which an epoch has at most four closures."""
    closures = -(-STEPS_PER_EPOCH // steps)
    if closures > MOST_CLOSURES:
        return f"with {steps} steps to a closure, an epoch has {closures} closures; at most {MOST_CLOSURES} are asked for."
    if -(-STEPS_PER_EPOCH // (steps - 1)) <= MOST_CLOSURES:
        return f"with {steps} steps to a closure, an epoch has {closures}: few enough. But {steps} is not the smallest such number."
    return None


first_exercise = Exercise(
    "Give the number of bytes that one worker sends to the servers in one step.",
    a_whole_number(0, 10**9, bytes_of_gradients),
    hints=(
        "A gradient has as many numbers as the parameters of the model. How many are these?",
        "model.count_params() counts them. Each is a float32.",
    ),
    why="4,810 parameters, a gradient of four bytes for each.",
)

second_exercise = Exercise(
    "Give the smallest number of steps to a closure with which an epoch of 60 steps is at most 4 closures.",
    a_whole_number(1, STEPS_PER_EPOCH, smallest_with_few_closures),
    hints=(
        "How many closures of 20 steps hold 60 steps? And how many of 16?",
        "The last closure may be shorter than the others: divide 60 by the steps of one closure, and round up.",
    ),
    why="60 / 15 = 4. With more steps to a closure the chief is asked even less often, but a worker that dies loses more work.",
)
