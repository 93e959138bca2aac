"""A web page on this machine that shows the Clusters of a management cluster; it changes nothing.

`watches` follows the API server. `overview`, `cluster_tree` and `hiding` make data of objects, `pages` makes pages of
data. `access` refuses other users, `server` listens. In a cluster `login` takes the place of
`access`: `oidc` gets tokens from an issuer, and `sessions` keeps watches for each token.
"""
