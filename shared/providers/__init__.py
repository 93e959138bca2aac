"""What the phases of a provider's life share: what they read, what they say, and how one starts the next."""
