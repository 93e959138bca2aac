"""The API of this project and of Cluster API: resources, names, conditions, and accessors for plain objects."""
