"""The bytes of AMQP 0-9-1: frames, methods and contents. Pure."""
