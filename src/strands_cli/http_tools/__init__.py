"""Tools from `tools.http_executors`, and the way out over HTTP that they share with `http_request`."""
