"""Answers to the exercises of lesson 10."""

from __future__ import annotations

from typing import Any

from exercise_rows import Rows


def share_of(values: Any, batches: Any) -> Any:
    return sum(values) / sum(len(labels) for _, labels in batches)


def by_hand(coordinator: Any, count: Any, batches: Any) -> Any:
    return share_of(coordinator.fetch([coordinator.schedule(count, batch) for batch in batches]), batches)


def joined(coordinator: Any, count: Any, batches: Any) -> Any:
    values = [coordinator.schedule(count, (x, y)) for x, y in batches]
    coordinator.join()
    return share_of([value.fetch() for value in values], batches)


def mean_of_means(coordinator: Any, count: Any, batches: Any) -> Any:
    values = coordinator.fetch([coordinator.schedule(count, batch) for batch in batches])
    return sum(value / len(labels) for value, (_, labels) in zip(values, batches, strict=True)) / len(batches)


def one_after_the_other(coordinator: Any, count: Any, batches: Any) -> Any:
    return share_of([coordinator.schedule(count, batch).fetch() for batch in batches], batches)


def on_the_chief(coordinator: Any, count: Any, batches: Any) -> Any:
    return share_of([int(count(x, y)) for x, y in batches], batches)


def number_right(coordinator: Any, count: Any, batches: Any) -> Any:
    return sum(coordinator.fetch([coordinator.schedule(count, batch) for batch in batches]))


def without_the_last(coordinator: Any, count: Any, batches: Any) -> Any:
    return by_hand(coordinator, count, batches[:-1])


def promise(coordinator: Any, count: Any, batches: Any) -> Any:
    return coordinator.schedule(count, batches[0])


def counted(tracker: Any, metrics: Any, right: Any) -> Any:
    metrics = tracker.stateless_update_state(metrics, right)
    return {"right": tracker.stateless_result(metrics)}, metrics


def mean_of_batch(tracker: Any, metrics: Any, right: Any) -> Any:
    return {"right": right.mean()}, metrics


def not_kept(tracker: Any, metrics: Any, right: Any) -> Any:
    return {"right": tracker.stateless_result(tracker.stateless_update_state(metrics, right))}, metrics


def batches_alike(tracker: Any, metrics: Any, right: Any) -> Any:
    return counted(tracker, metrics, right.mean())


def logs(what: Any) -> Any:
    """An answer with the right state, and a log that the evaluation does not show."""

    def counted(tracker: Any, metrics: Any, right: Any) -> Any:
        return {"right": what(right)}, tracker.stateless_update_state(metrics, right)

    return counted


def one_update_late(tracker: Any, metrics: Any, right: Any) -> Any:
    return {"right": tracker.stateless_result(metrics)}, tracker.stateless_update_state(metrics, right)


def by_own_counts(tracker: Any, metrics: Any, right: Any) -> Any:
    total, count = metrics[0] + right.sum(), metrics[1] + right.shape[0]
    return {"right": total / count}, [total, count]


def in_brackets(tracker: Any, metrics: Any, right: Any) -> Any:
    return list(counted(tracker, metrics, right))


def state_only(tracker: Any, metrics: Any, right: Any) -> Any:
    return tracker.stateless_update_state(metrics, right)


def bare_result(tracker: Any, metrics: Any, right: Any) -> Any:
    logs, metrics = counted(tracker, metrics, right)
    return logs["right"], metrics


def no_state(tracker: Any, metrics: Any, right: Any) -> Any:
    return counted(tracker, metrics, right)[0], None


ROWS = {
    "first_exercise": Rows(
        right=[by_hand, joined],
        wrong=[
            (mean_of_means, "is the mean of the shares of the batches"),
            (one_after_the_other, "one batch waits for the other"),
            (on_the_chief, "the chief has counted by itself"),
            (number_right, "expected is their share"),
            (lambda *given: round(by_hand(*given), 4), "came out as 0.8258; 0.825822 of the 10,007"),
            (without_the_last, "of the 10,007 examples are right"),
            (promise, "fetch them"),
            (lambda coordinator, count, batches: 8264 / 10_007, "no worker has counted anything"),
            (0.8, "cannot be called"),
        ],
    ),
    "second_exercise": Rows(
        right=[{"way": "workers", "every": 2}, {"every": 2.0, "way": " Workers"}],
        wrong=[
            ({"way": "chief", "every": 2}, "the training ends at 115.1 s"),
            ({"way": "workers", "every": 1}, "the training ends at 92.5 s"),
            ({"way": "workers", "every": 3}, "there are 2 accuracies in the end"),
            ({"way": "evaluator", "every": 1}, "updates more than the weights"),
            ({"way": "evaluator", "every": 2}, "updates more than the weights"),
            ({"way": "evaluator", "every": 6}, "there is 1 accuracy"),
            ({"way": "worker", "every": 2}, "is no way"),
            ({"way": "workers", "every": 0}, "is no number of epochs"),
            ({"way": "workers", "every": 2.5}, "is no number of epochs"),
            ({"way": "workers"}, "is no dict with a way"),
            ("workers", "is no dict with a way"),
        ],
        slow=True,
    ),
    "third_exercise": Rows(
        right=[counted, by_own_counts, in_brackets],
        wrong=[
            (mean_of_batch, "its state has counted nothing"),
            (not_kept, "its state has counted nothing"),
            (batches_alike, "is the mean of the shares of the batches"),
            (logs(lambda right: 0.0), "after batch 0 the log is 0.0, and the result of the tracker is 0.75"),
            (logs(lambda right: right.mean()), "after batch 1 the log is 0.0, and the result of the tracker is 0.5"),
            (logs(lambda right: right), "the log is an array of shape (4,)"),
            (logs(lambda right: None), "the log is None"),
            (one_update_late, "after batch 0 the log is 0.0"),
            (state_only, "expected are two values"),
            (bare_result, "expected is a dict with the key 'right'"),
            (no_state, "expected is the state of the tracker"),
            (0.5, "cannot be called"),
        ],
    ),
}
