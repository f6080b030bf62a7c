# python sqlite3: write-ahead log, a writer and a reader in two processes
import os
import sqlite3

db = sqlite3.connect("db")
assert db.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
db.execute("CREATE TABLE t (n)")
db.execute("INSERT INTO t VALUES (1)")
db.commit()
assert os.path.exists("db-wal") and os.path.exists("db-shm")
if not (child := os.fork()):
    other = sqlite3.connect("db")
    other.execute("INSERT INTO t VALUES (2)")
    other.commit()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert db.execute("SELECT sum(n) FROM t").fetchone() == (3,)
