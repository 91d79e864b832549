# A worker in Python, standard library only: the whole protocol is one call, described in contract/src/workers.ts and at
# /docs#syncWorker. It serves one type, one run at a time, until Ctrl-C; examples/any-language-worker.mjs does several.
#
#   npm start                     in one terminal
#   python3 examples/worker.py    in another; an argument names another server than http://127.0.0.1:7600
import json, os, sys, threading, time, urllib.request, uuid

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7600"
name = f"python-{os.getpid()}"
about = {"host": "here", "pid": os.getpid(), "version": "1", "slots": 1, "types": ["example-words"], "executors": [], "queues": None}

# The work itself. What takes long looks at `stop` now and then, and gives up when it is set.
def count_words(payload, stop):
    if stop.wait(payload.get("seconds", 0)): raise InterruptedError("asked to stop")
    return {"words": len(payload["text"].split())}

# A session is a row of calls numbered from 1. Whatever an earlier session held is given to others.
def new_session(): return {"id": str(uuid.uuid4()), "n": 0, "until": float("inf"), "beat": 1, "describe": True}

# One call: it says what became of the work, renews the lease, and is answered with new runs and cancellations.
def sync(wait, running=[], **more):
    session["n"] += 1
    sent = time.monotonic()  # the lease counts from here
    more.update({"worker": about} if session["describe"] else {}, session_id=session["id"], n=session["n"])
    body = json.dumps({"concluded": session["n"] - 1, "running": running, "accept": True, "wait": wait, **more})
    request = urllib.request.Request(f"{url}/workers/{name}/sync", body.encode(), {"content-type": "application/json"})
    answer = json.load(urllib.request.urlopen(request, timeout=8))
    session["until"] = sent + (answer["lease_ms"] - answer["margin_ms"]) / 1000  # stop a margin before others may start
    session.update(beat=answer["heartbeat_ms"] / 1000, describe=answer["describe"])
    return answer

# The lease is gone: its time is over, or the server says so. Others may have our run now.
def is_lost(error):
    return time.monotonic() > session["until"] or getattr(error, "code", 500) < 500

# Does a run in a thread of its own, and renews the lease meanwhile.
def work(run):
    outcome, stop = {"run_id": run["run_id"], "lease_id": run["lease_id"]}, threading.Event()
    def handle():
        try:
            outcome.update(result=count_words(run["payload"], stop), status="SUCCESS")
        except Exception as error:
            outcome.update(error_message=repr(error), status="CANCELLED" if stop.is_set() else "FAILED")
    (thread := threading.Thread(target=handle, daemon=True)).start()
    while True:
        done = thread.join(session["beat"] / 2) or not thread.is_alive()
        try:  # an outcome may be reported twice: the same lease is settled once
            answer = sync(False, outcomes=[outcome]) if done else sync(False, [run["run_id"]])
        except OSError as error:
            if is_lost(error): return stop.set()
            continue
        if done: return print(outcome, flush=True)
        if answer["cancel"] + answer["refused"]: stop.set()

session = new_session()
print(f"worker {name} serves example-words at {url}", flush=True)
try:
    while True:
        try:  # a call that waits is answered as soon as there is work, or after a heartbeat; the first only introduces us
            for run in sync(not session["describe"])["runs"]: work(run)
        except OSError as error:
            print(f"no answer: {error}", flush=True)
            session = new_session() if is_lost(error) else session
            time.sleep(0.5)
except KeyboardInterrupt:
    sync(False, bye=True)
    print("goodbye")
