"""Exchanges: how a message finds its queues, and the bytes of AMQP properties that travel with it. Pure."""
