# sqlite3: a database in write-ahead mode, a dump and its import
is "$(sqlite3 db 'PRAGMA journal_mode=WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1), (2); SELECT sum(n) FROM t')" $'wal\n3'
sqlite3 db .dump | sqlite3 copy
is "$(sqlite3 copy 'SELECT count(*) FROM t')" 2
