"""The part of the management HTTP API of RabbitMQ that its tools, exporters and libraries use."""
