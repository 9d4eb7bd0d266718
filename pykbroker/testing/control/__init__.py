"""The control port: faults, clock, resets and inspection of a broker over HTTP."""
