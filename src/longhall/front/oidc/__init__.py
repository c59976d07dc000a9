"""OpenID Connect: tokens of an identity provider, and the public keys that verify them."""
