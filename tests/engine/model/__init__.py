"""The protocol in plain Python, and stories that compare the engine with it.

`plain` is the model. `machine` holds the rules of random stories; after every step the whole database must be what the
model says. To tell some of them in a process of one's own, against a server whose database 9 may be emptied:
`telling.tell(url, stories=20, steps=30, seed_=7, machine="queues")`, which raises where server and model differ.
"""
