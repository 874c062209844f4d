"""What the lessons use beside simdist: predictions, exercises, and the checks of each lesson.

`prediction.py` asks before the result is visible, `exercise.py` checks an answer, and `answers.py` has the checks that many
exercises share. `lesson_00.py`, `lesson_01.py` and so on hold the exercises of one lesson each, with the runs that they need, so
that a notebook has one line of import in place of that code. No answer of a student may end in a traceback.

A notebook finds this package because it lies beside it. It imports nothing heavy until a lesson does.
"""

from classroom.exercise import Exercise
from classroom.prediction import Prediction

__all__ = ["Exercise", "Prediction"]
