"""Variables: their cells, and the updates of optimizers on the tasks that hold them."""
