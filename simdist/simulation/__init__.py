"""Virtual time: the clock and its fibers, shared links, and streams of random numbers."""
