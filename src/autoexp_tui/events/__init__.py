"""Events of a session, their reducers, and the draft of a commit. Pure."""
