"""What both ends of a gRPC connection must agree on."""

SERVICE = "wool.Worker"
METHOD = "session"

# Large data leaves the message (wire.buffers); what stays is bounded by the sum of a cell's small objects, and gRPC's default
# limit of 4 MB would answer with RESOURCE_EXHAUSTED, which looks like a busy worker.
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]
