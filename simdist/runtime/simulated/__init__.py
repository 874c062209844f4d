"""The simulated engine: tasks, messages, devices and failures in virtual time. No package above it imports it."""
