"""GET, and looking again until it answers."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request

GIVE_UP = 120


def get(url):
    """Status and text."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(what, look):
    """What `look` gives as soon as it gives something; there is no event to wait for."""
    end = time.monotonic() + GIVE_UP
    last = None
    while time.monotonic() < end:
        try:
            found = look()
            if found:
                return found
        except OSError as error:
            last = error
        time.sleep(0.2)
    raise AssertionError(f"{what} did not happen within {GIVE_UP} s; {last}")


def query(base, expr):
    status, text = get(f"{base}/api/v1/query?query={urllib.parse.quote(expr)}")
    answer = json.loads(text)
    assert answer["status"] == "success", f"{status}: {expr}: {answer}"
    return answer["data"]["result"]
