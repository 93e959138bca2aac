"""Code that functions share, in layers. A layer imports only the layers below it."""
