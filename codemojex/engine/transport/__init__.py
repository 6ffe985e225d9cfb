"""Reaches the servers: sockets, pools and topologies, and what an error of the client means. It knows no jobs."""
