"""Virtual time: the clock and its fibers, shared links, faults, and streams of random numbers."""
