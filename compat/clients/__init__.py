"""Members of groups and relays of several libraries as programs, watched, stopped and killed."""
