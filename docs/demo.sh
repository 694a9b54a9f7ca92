#!/bin/sh
# `make demo`: annotate a copy of a real export, look at the result and check it.
set -eu
rm -rf demo
mkdir demo
cp -R fixtures/falcon demo/falcon

step() {
    printf '\n# %s\n$ %s\n' "$1" "$2"
    sh -c "$2" || printf '(exit code %s)\n' "$?"
}

echo 'The demo works on demo/falcon, a copy of a tiny real export with 4 decoder layers. It needs no network.'
step 'Locate the decoder layers and write the annotation that speculative decoding reads.' 'irtools annotate demo/falcon'
step 'The annotation is one entry of the rt_info; nothing else in the file has changed.' \
    'grep -n hidden_states_decoder_layers demo/falcon/openvino_model.xml'
step 'A second run finds it and writes nothing.' 'irtools annotate demo/falcon'
step 'Check the directory against the requirements of the runtime.' 'irtools verify demo/falcon'
step 'Show its layers, weights, decoding strategies and memory.' 'irtools inspect demo/falcon'
step 'Draw it.' 'irtools render demo/falcon -o demo/falcon.svg'
step 'Write one page with everything.' 'irtools report demo/falcon -o demo/falcon.html'
cat <<'END'

Next:
  - open demo/falcon.html in a browser: findings, tables, and a picture in which each layer opens down to its ops;
    demo/falcon.svg is the overview alone;
  - put irtools on the path: . .venv/bin/activate
  - try it on an export of yours: irtools inspect MODEL_DIR && irtools verify MODEL_DIR
  - `irtools --help` lists the commands, docs/reference/commands.md has a session with each of them, and
    docs/tutorial.md goes from an export to a server that drafts.
The folder demo is ignored by git, and `make clean` removes it.
END
