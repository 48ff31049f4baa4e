"""Quality, measured from outside: data sets go in and questions come out through the client, as for any user."""
