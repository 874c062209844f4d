"""The simulated engine: tasks, messages, devices and failures in virtual time. Above it nobody imports anything from here."""
