# python venv and pip: a virtual environment, a wheel built and installed into it and by --target
mkdir pkg
cat >pkg/setup.py <<'END'
from setuptools import setup
setup(name="kept", version="1.0", py_modules=["kept"], entry_points={"console_scripts": ["kept = kept:main"]})
END
echo 'def main(): print("kept works")' >pkg/kept.py
# The system's python has setuptools; any other may not.
/usr/bin/python3 -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir=wheels ./pkg
python3 -m venv venv
venv/bin/pip install --quiet --no-index wheels/kept-1.0-py3-none-any.whl
is "$(venv/bin/kept)" 'kept works'
/usr/bin/python3 -m pip install --quiet --no-index --target=target wheels/kept-1.0-py3-none-any.whl
is "$(PYTHONPATH=target python3 -c 'import kept; kept.main()')" 'kept works'
