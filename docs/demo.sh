#!/bin/sh
# `make demo`: annotate a copy of a real export and look at the result.
set -eu
rm -rf demo
mkdir demo
cp -R fixtures/falcon demo/falcon

show() {
    printf '\n$ %s\n' "$*"
    "$@" || printf '(exit code %s)\n' "$?"
}

show irtools annotate demo/falcon
show grep -n hidden_states_decoder_layers demo/falcon/openvino_model.xml
show irtools annotate demo/falcon
