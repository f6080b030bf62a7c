# python unittest and compileall: test discovery, byte code, temporary directories, a thread pool
mkdir tests
cat >tests/test_kept.py <<'END'
import pathlib, tempfile, unittest
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
class Kept(unittest.TestCase):
    def test_temporary(self):
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "f").write_text("x")
            with tempfile.NamedTemporaryFile(dir=d) as f:
                self.assertTrue(f.name.startswith(d))
    def test_pools(self):
        for pool in ThreadPoolExecutor, ProcessPoolExecutor:
            with pool(2) as p:
                self.assertEqual(list(p.map(abs, [-1, -2])), [1, 2])
END
has "$(python3 -m unittest discover -s tests 2>&1)" 'Ran 2 tests'
python3 -m compileall -q tests
find tests/__pycache__ -name 'test_kept.*.pyc' | grep -q .
