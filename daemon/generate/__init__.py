"""Making responses: what to send next, one sample against one server, what to do when it fails."""
