"""The one writer: ports to the outside, the commit loop, the dispatcher, the handle."""
