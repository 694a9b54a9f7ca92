"""Settings that pyproject.toml cannot express: package discovery, plus one package in another folder."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["irtools", "irtools.*"]), "irtools.rules"],
    package_dir={"irtools.rules": "rules"},
)
