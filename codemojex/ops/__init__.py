"""ops shows: whether a process is well, and how the queues stand.

It only reads. It never repairs, and it shows no secret.
"""
