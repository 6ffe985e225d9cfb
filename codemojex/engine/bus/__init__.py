"""The front door: a connection with a node number, and queues as objects over the verbs of the other rooms."""
