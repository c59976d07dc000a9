"""The SQS door: both protocols of the service, in front of the queues."""
