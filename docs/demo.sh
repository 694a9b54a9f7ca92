#!/bin/sh
# `make demo`: annotate a copy of a real export, look at the result and check it.
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
show irtools verify demo/falcon
show irtools inspect demo/falcon
show irtools render demo/falcon -o demo/falcon.svg
show irtools report demo/falcon -o demo/falcon.html
printf '\nOpen demo/falcon.html in a browser. `. .venv/bin/activate` puts irtools on the path.\n'
