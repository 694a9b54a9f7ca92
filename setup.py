"""What pyproject.toml cannot say: all packages that there are, and one that lies in another folder."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["irtools", "irtools.*"]), "irtools.rules"],
    package_dir={"irtools.rules": "rules"},
)
