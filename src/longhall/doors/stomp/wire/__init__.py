"""STOMP frames as bytes. Pure: no clock, no socket."""
