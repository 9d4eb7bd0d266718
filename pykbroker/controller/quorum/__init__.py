"""Who may append to the metadata log: epochs and votes, without sockets, files or clocks."""
