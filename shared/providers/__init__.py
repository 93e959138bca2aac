"""What the functions of one provider's phases share: reading inputs, building the status, starting the next phase."""
