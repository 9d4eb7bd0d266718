"""Pure decisions of the coordinators: state, request and time in, an `Outcome` out."""
