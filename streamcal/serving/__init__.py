"""`streamcal serve`: a `LabelJoin` behind HTTP, in one process with one event loop, its events in a journal.

`settings.py` has the limits, `joining.py` the join that tells what it learns, `quality.py` what is measured of that,
`acknowledging.py` the group commit and snapshots, `forking.py` what a child process makes meanwhile, `reading.py` the
checks of requests, `service.py` what the process does, `app.py` its HTTP, `openapi.py` the schema, `metrics.py` the
page for Prometheus, and `running.py` the process under uvicorn.
Starlette, uvicorn and prometheus-client are the extra `serve`.
"""
