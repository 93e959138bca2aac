"""What functions share, in layers: a layer imports only the layers below it."""
