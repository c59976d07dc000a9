"""The methods of AMQP, a file for each class."""
