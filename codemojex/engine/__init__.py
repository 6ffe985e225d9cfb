"""engine delivers: a Valkey-native job system that speaks the EchoMQ 3.0.0 protocol.

Jobs go through fair lanes behind limits that the claim itself enforces, are worked under a lease with a
fencing token, and are settled together with an effect. The package can be read, tested and used without the
game around it; it imports nothing of the application.
"""
