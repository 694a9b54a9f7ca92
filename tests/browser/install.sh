#!/bin/sh
# Get Chromium for tests/browser, where that takes no more than Debian's packages; the tests skip without it.
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "tests/browser: no chromium and chromedriver here, and no apt-get as root to install them: they will be skipped" >&2
    exit 0
fi
echo "tests/browser: installing chromium and chromium-driver" >&2
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1; then
    echo "tests/browser: apt-get could not install chromium and chromium-driver: the tests will be skipped" >&2
fi
exit 0
