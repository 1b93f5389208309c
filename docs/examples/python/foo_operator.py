"""An operator on kopf: says of each Foo that it is ready."""

# ANCHOR: operator
import datetime

import kopf


@kopf.on.create("example.com", "v1", "foos")
def made(patch, **_):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "reason": "Made", "message": "", "lastTransitionTime": now}
    patch.status["conditions"] = [condition]
# ANCHOR_END: operator
