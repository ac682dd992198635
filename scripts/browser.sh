#!/bin/sh
# Install Chromium and its driver, with which tests/browser opens reports, where they are missing.
set -eu

if command -v chromedriver >/dev/null; then
    for name in chromium google-chrome; do
        if command -v "$name" >/dev/null; then
            echo "$name and chromedriver are installed"
            exit 0
        fi
    done
fi
if ! command -v apt-get >/dev/null; then
    echo "make browser uses apt-get, which is missing here. Install Chromium and its driver so that 'chromium' and" >&2
    echo "'chromedriver' are on the path; without them tests/browser is skipped." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    root="sudo"
else
    echo "Installing packages needs root or sudo. Ask an administrator for: apt-get install chromium chromium-driver" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
$root apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core
