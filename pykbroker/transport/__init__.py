"""The network edge: sockets, frames and the order in which answers leave."""
